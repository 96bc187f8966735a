package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/internal/trace"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// leaseTest is the lease loop of a session with clients of one registration
// each, and without a network.
type leaseTest struct {
	t        *testing.T
	leases   *leases
	registry *locked
	clients  *clients
	starve   atomic.Bool  // the loop is late by 900 ms in each round
	cutOff   atomic.Bool  // no meta leader and no data node answers
	judged   atomic.Int64 // how often it was asked whether one does
	expiring []int        // how many connections expired in each round; guarded by clients.mu
}

// withLeases runs a test in virtual time.
func withLeases(t *testing.T, test func(t *testing.T, x *leaseTest), options ...func(*Config)) {
	synctest.Test(t, func(t *testing.T) {
		config := DefaultConfig()
		for _, option := range options {
			option(&config)
		}
		x := &leaseTest{t: t, registry: &locked{Registry: registry.New(config.SessionGrace, 0, nil)}, clients: newClients(config.SessionGrace)}
		config.Trace = func(c trace.Claim) {
			if c.Kind == trace.Leasing && x.starve.Load() {
				time.Sleep(900 * time.Millisecond)
			}
			if c.Kind == trace.Expiring {
				x.clients.mu.Lock()
				x.expiring = append(x.expiring, c.Count)
				x.clients.mu.Unlock()
			}
		}
		x.registry.Resize(1, time.Now())
		x.clients.refuse("")
		x.leases = &leases{
			config: config, registry: x.registry, clients: x.clients, events: serve.NewEvents("session-1", time.Now), wakeWriters: func() {},
			metaLeaderSilent: func() bool { x.judged.Add(1); return x.cutOff.Load() }, cutOff: x.cutOff.Load,
			expirations: prometheus.NewCounter(prometheus.CounterOpts{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { x.leases.run(ctx) })
		defer running.Wait()
		defer cancel()
		test(t, x)
	})
}

// connect connects a client, which registers itself under its name.
func (x *leaseTest) connect(name string) *connection {
	conn := &connection{Owner: &registry.Owner{Client: name, Name: name}, linger: x.leases.config.ClientLease, out: &outbox{}}
	require.NoError(x.t, x.clients.admit(conn, &wirev1.Welcome{}))
	data, err := conclave.NewDataInfoID("svc", "", "")
	require.NoError(x.t, err)
	x.registry.do(func(r *registry.Registry) {
		_, err := r.Put(conn.Owner, &wirev1.Publisher{Id: name, DataInfoId: data.String(), Version: time.Now().UnixNano()}, time.Now())
		require.NoError(x.t, err)
	})
	return conn
}

// breakOff breaks connections.
func (x *leaseTest) breakOff(all ...*connection) {
	for _, conn := range all {
		x.registry.do(func(r *registry.Registry) { x.clients.release(conn, r.Release(conn.Owner), false, time.Now()) })
	}
	x.clients.changed.Set()
}

// close breaks connections, and their end is seen.
func (x *leaseTest) close(all ...*connection) {
	for _, conn := range all {
		conn.closed = true
	}
	x.breakOff(all...)
}

// rounds returns how many connections expired in each round.
func (x *leaseTest) rounds() []int {
	x.clients.mu.Lock()
	defer x.clients.mu.Unlock()
	return slices.Clone(x.expiring)
}

// live returns the number of registrations.
func (x *leaseTest) live() int {
	synctest.Wait()
	return with(x.registry, (*registry.Registry).Live)
}

// A mass of clients is given one more lease to come back, and no third one.
func TestLeases_MassDeathIsDeclaredALeaseLater(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		lease := x.leases.config.ClientLease
		var all []*connection
		for i := range 4 {
			all = append(all, x.connect(fmt.Sprint("client-", i)))
		}
		x.breakOff(all...)
		time.Sleep(2*lease - time.Millisecond)
		assert.Equal(t, 4, x.live())
		x.connect("client-0") // it has found the way back
		time.Sleep(time.Millisecond)
		assert.Equal(t, 1, x.live())
	})
}

// One client is no mass, however many of the session's registrations it has.
func TestLeases_OneClientIsRemovedAtTheEndOfItsLease(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		x.breakOff(x.connect("client-1"))
		time.Sleep(x.leases.config.ClientLease - time.Millisecond)
		assert.Equal(t, 1, x.live())
		time.Sleep(time.Millisecond)
		assert.Zero(t, x.live())
	})
}

// Also if it has many leases, as one without a connection has: a lease for each
// registration.
func TestLeases_OneClientWithManyLeasesIsNoMass(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		lease := x.leases.config.ClientLease
		x.breakOff(x.connect("client-1"))
		time.Sleep(lease) // its removal counts for a grace
		var all []*connection
		for i := range 3 {
			all = append(all, x.connect(fmt.Sprint("client-2-", i)))
			all[i].Client = "client-2"
		}
		x.breakOff(all...)
		time.Sleep(lease - time.Millisecond)
		assert.Equal(t, 3, x.live())
		time.Sleep(time.Millisecond)
		assert.Zero(t, x.live())
	})
}

// A time to live above a lease ends when it was asked to. While the session is cut off from
// the data nodes, it ends with the lease: its client may have gone on at another session.
func TestLeases_LongerTimeToLiveIsKept(t *testing.T) {
	for _, x := range []struct {
		grace, lease time.Duration
		cutOff       bool
		ends         time.Duration
	}{{15 * time.Second, 10 * time.Second, false, 30 * time.Second}, {15 * time.Second, 10 * time.Second, true, 10 * time.Second},
		{1200 * time.Millisecond, 800 * time.Millisecond, false, 30 * time.Second}} {
		ends := x.ends
		grace := func(c *Config) { c.SessionGrace, c.ClientLease = x.grace, x.grace/3 }
		cutOff, lasts := x.cutOff, x.lease
		withLeases(t, func(t *testing.T, x *leaseTest) {
			x.cutOff.Store(cutOff)
			conn := x.connect("client-1")
			now := time.Now()
			conn.Renew(now, time.Minute)
			conn.leased, conn.linger, conn.until = true, lasts, now.Add(30*time.Second)
			x.registry.do(func(*registry.Registry) { x.clients.lease(conn, now) })
			time.Sleep(ends - time.Millisecond)
			assert.Equal(t, 1, x.live())
			time.Sleep(100 * time.Millisecond)
			assert.Zero(t, x.live())
		}, grace)
	}
}

// One client whose connection was seen to be closed is removed a quarter of a
// lease later, and its removal is confirmed however much of the session it had.
func TestLeases_ClientThatWasSeenToEndIsRemovedSoon(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		span := closeSpan(x.leases.config.ClientLease, 1)
		for i := range 3 { // one after the other: these are no mass either
			name := fmt.Sprint("client-", i)
			x.close(x.connect(name))
			time.Sleep(span - time.Millisecond)
			assert.Equal(t, 1, x.live(), name)
			time.Sleep(time.Millisecond)
			assert.Zero(t, x.live(), name)
			time.Sleep(massSpan(x.leases.config.ClientLease))
		}
		assert.Empty(t, x.clients.removals)
	})
}

// It is kept for its lease if that is not certain.
func TestLeases_SeenEndIsNoProofWhileOthersAreLost(t *testing.T) {
	keeps := func(name string, lose func(x *leaseTest, gone *connection), before, after int) {
		t.Run(name, func(t *testing.T) {
			withLeases(t, func(t *testing.T, x *leaseTest) {
				lease := x.leases.config.ClientLease
				gone := x.connect("client-1")
				x.close(gone)
				time.Sleep(lease / 8)
				lose(x, gone)
				time.Sleep(lease - lease/8 - time.Millisecond)
				assert.Equal(t, before, x.live())
				time.Sleep(2 * lease)
				assert.Equal(t, after, x.live(), "not for ever")
			})
		})
	}
	keeps("another client is lost", func(x *leaseTest, _ *connection) { x.breakOff(x.connect("client-2")); x.connect("client-3") }, 3, 1)
	keeps("another client's end is seen", func(x *leaseTest, _ *connection) { x.close(x.connect("client-2")); x.connect("client-3") }, 3, 1)
	keeps("the client is back", func(x *leaseTest, gone *connection) {
		again := &connection{Owner: &registry.Owner{Client: gone.Client}, out: &outbox{}}
		require.NoError(t, x.clients.admit(again, &wirev1.Welcome{}))
	}, 1, 0)
	keeps("no contact with the cluster", func(x *leaseTest, _ *connection) { x.cutOff.Store(true) }, 1, 0)
}

// A device between the clients and the session resets all their connections: one
// round of the loop judges all of them, and puts them back together.
func TestLeases_ManyResetsAreJudgedInOneRound(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		const many = 10_000
		lease := x.leases.config.ClientLease
		var all []*connection
		for i := range many {
			all = append(all, x.connect(fmt.Sprint("client-", i)))
		}
		x.close(all...)
		time.Sleep(lease - time.Millisecond)
		assert.Equal(t, many, x.live())
		assert.Equal(t, []int{many}, x.rounds())
		assert.EqualValues(t, 1, x.judged.Load())
		time.Sleep(time.Millisecond)
		assert.Equal(t, many, x.live(), "a mass has one more lease")
		time.Sleep(lease)
		assert.Zero(t, x.live())
		assert.Equal(t, []int{many, many, many}, x.rounds())
		assert.EqualValues(t, 1, x.judged.Load())
	})
}

// Connections of one client are not lost together, those of two within the span are.
func TestLostTogether_ComparesWithOtherClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const span = 4
		var lost []broken
		for range rapid.IntRange(0, 12).Draw(t, "lost") {
			client, at := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"), rapid.IntRange(0, 30).Draw(t, "at")
			lost = append(lost, broken{conn: &connection{Owner: &registry.Owner{Client: client}}, at: time.Unix(0, int64(at))})
		}
		together := lostTogether(slices.Clone(lost), span)
		for _, b := range lost {
			other := func(x broken) bool { return x.conn.Client != b.conn.Client && x.at.Sub(b.at).Abs() <= span }
			if want := slices.ContainsFunc(lost, other); together[b.conn] != want {
				t.Fatalf("%s at %d: %t, want %t", b.conn.Client, b.at.UnixNano(), !want, want)
			}
		}
	})
}

// A client with much to replay has more time, but never more than its lease.
func TestCloseSpan_GrowsWithTheReplay(t *testing.T) {
	assert.Less(t, closeSpan(5*time.Second, 1000), 1500*time.Millisecond)
	assert.Equal(t, 3750*time.Millisecond, closeSpan(5*time.Second, 50_000))
	assert.Equal(t, 5*time.Second, closeSpan(5*time.Second, 1_000_000))
}

// A mass needs two clients at least, and the largest one does not count for more
// than the second. Equal clients are a mass above 30 %.
func TestIsMass_CountsTheLargestClientAsTheSecond(t *testing.T) {
	assert.False(t, isMass(nil, 0))
	assert.False(t, isMass([]int{100}, 0), "all that the session had, of one client")
	assert.False(t, isMass([]int{5, 1000}, 100), "one large client and a small one")
	assert.True(t, isMass([]int{400, 500}, 100))
	rapid.Check(t, func(t *rapid.T) {
		size, lost, left := rapid.IntRange(1, 1000).Draw(t, "size"), rapid.IntRange(2, 20).Draw(t, "lost"), rapid.IntRange(0, 40).Draw(t, "left")
		equal := slices.Repeat([]int{size}, lost)
		if want := float64(lost) > massShare*float64(lost+left); isMass(slices.Clone(equal), left*size) != want {
			t.Fatalf("%d of %d equal clients: mass %t", lost, lost+left, !want)
		}
		equal[rapid.IntRange(0, lost-1).Draw(t, "at")] *= 1000
		if isMass(slices.Clone(equal), left*size) != isMass(slices.Repeat([]int{size}, lost), left*size) {
			t.Fatal("that one client was larger made a difference")
		}
	})
}

// Clients that left as they had announced, or that were asked to move, are
// removed at the end of their leases, however many they are.
func TestLeases_ExpectedEndsAreNoMassDeath(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		moved, announced := x.connect("client-1"), x.connect("client-2")
		moved.asked, announced.Announced = true, true
		x.breakOff(moved, announced, x.connect("client-3"), x.connect("client-4"))
		time.Sleep(x.leases.config.ClientLease)
		assert.Equal(t, 2, x.live())
		time.Sleep(x.leases.config.ClientLease)
		assert.Zero(t, x.live())
	})
}

// A session that has no processor for nearly half of the time is late in each
// round, too little to be taken for suspended. The leases of broken connections
// last until it has run for that time.
func TestLeases_OwnLatenessDoesNotCount(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		x.starve.Store(true)
		time.Sleep(5 * time.Second)
		x.breakOff(x.connect("client-1"))
		time.Sleep(8 * time.Second)
		assert.Equal(t, 1, x.live())
		time.Sleep(3 * time.Second)
		assert.Zero(t, x.live())
	})
}

// A client whose lease expires while another one has only just broken off is no
// mass, although the two have all registrations.
func TestLeases_ClientThatHasJustBrokenOffIsNoMass(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		lease := x.leases.config.ClientLease
		gone, other := x.connect("client-1"), x.connect("client-2")
		x.breakOff(gone)
		time.Sleep(lease / 2)
		x.breakOff(other)
		time.Sleep(lease / 2)
		assert.Equal(t, 1, x.live())
	})
}

// A client that was asked to move to another session and that has stayed is like
// any other: its death is not expected.
func TestSpread_ClientThatStayedIsNotExpectedToGo(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		here, there := conclave.NodeID{Name: "session-1"}, conclave.NodeID{Name: "session-2"}
		s := &spread{
			node: here, beat: time.Hour, view: wire.NewView(), drain: &drain{opened: true}, clients: x.clients, registry: x.registry,
			stopping: func() bool { return false }, log: hclog.NewNullLogger(),
		}
		s.observe(&wirev1.JoinResponse{Sessions: []*wirev1.SessionLoad{{Node: wire.NodeOut(here)}, {Node: wire.NodeOut(there), Address: "b"}}})
		var all []*connection
		for i := range spreadLeast {
			all = append(all, x.connect(fmt.Sprint("client-", i)))
		}
		b := &balance{stays: x.clients.stays, asked: map[*connection]move{}, rand: rand.New(rand.NewPCG(1, 2)), since: time.Now().Add(-spreadAfter)}
		s.round(b, time.Now())
		require.Len(t, b.asked, 1)
		time.Sleep(spreadMoving + time.Second)
		b.since = time.Time{} // no client is asked in this round
		s.round(b, time.Now())
		require.Empty(t, b.asked)
		for _, conn := range all {
			assert.False(t, conn.asked)
		}
	})
}
