package session

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
)

// crowd is one session of a test of balances.
type crowd struct {
	address string
	open    []*connection
	balance *balance
	before  []int // how many clients it had, one a second
	stayed  int
}

func newCrowd(i, clients int) *crowd {
	c := &crowd{address: fmt.Sprintf("session-%d", i), balance: &balance{asked: map[*connection]move{}, rand: rand.New(rand.NewPCG(uint64(i), 0))}}
	c.balance.stays = func(*connection) { c.stayed++ }
	for range clients {
		c.open = append(c.open, &connection{Owner: &registry.Owner{}})
	}
	return c
}

// reported is the count that the others have: two seconds old.
func (c *crowd) reported() int { return c.before[max(0, len(c.before)-3)] }

// playSecond lets each session ask clients; each that was asked has moved a second
// later. It returns how many were asked.
func playSecond(crowds []*crowd, now time.Time) (asked int) {
	arriving := map[string]int{}
	for _, c := range crowds {
		c.before = append(c.before, len(c.open))
	}
	for _, c := range crowds {
		stay := c.open[:0:0]
		for _, conn := range c.open {
			if m, moves := c.balance.asked[conn]; moves && m.at.Before(now) {
				arriving[m.to]++
			} else {
				stay = append(stay, conn)
			}
		}
		c.open = stay
		others := map[string]int{}
		for _, o := range crowds {
			if o != c {
				others[o.address] = o.reported()
			}
		}
		targets := c.balance.plan(c.open, others, now)
		for i, to := range targets {
			asked++
			c.balance.asked[c.open[i]] = move{to: to, at: now}
		}
	}
	for _, c := range crowds {
		for range arriving[c.address] {
			c.open = append(c.open, &connection{Owner: &registry.Owner{}})
		}
	}
	return asked
}

// Whatever the sessions have, all are within 10 % or one client of their share in
// the end, at most 1 % of a session's clients move in a second, and then none
// moves again.
func TestBalance_SpreadsAndRests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var crowds []*crowd
		total := 0
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 600), 2, 5).Draw(t, "clients") {
			crowds = append(crowds, newCrowd(i, n))
			total += n
		}
		now, last := time.Unix(0, 0), 0
		for second := 0; second < last+60; second++ { // at rest for a minute; nothing is remembered for longer than spreadMoving
			now = now.Add(time.Second)
			most := 0
			for _, c := range crowds {
				most += max(1, len(c.open)/spreadShare)
			}
			asked := playSecond(crowds, now)
			if asked > most {
				t.Fatalf("second %d: %d clients were asked to move, want at most %d", second, asked, most)
			}
			if asked > 0 {
				last = second
			}
			if last > 450 {
				t.Fatalf("clients are still asked to move in second %d", last)
			}
		}
		if total < spreadLeast {
			return
		}
		share := (total + len(crowds) - 1) / len(crowds)
		for _, c := range crowds {
			if len(c.open) > share+max(1, share/10) {
				t.Errorf("%s has %d clients, want at most 10 %% or one above %d", c.address, len(c.open), share)
			}
		}
	})
}

// A client that was asked counts as moved, until it has stayed for too long.
func TestBalance_ClientThatStaysCountsAgain(t *testing.T) {
	c := newCrowd(0, 21)
	others, now := map[string]int{"b": 9}, time.Unix(0, 0)
	c.balance.since = now.Add(-spreadAfter)
	asked := 0
	for range 6 {
		targets := c.balance.plan(c.open, others, now)
		for range targets {
			c.balance.asked[c.open[asked]] = move{to: "b", at: now}
			asked++
		}
		now = now.Add(time.Second)
	}
	if asked != 6 {
		t.Fatalf("%d clients were asked to move, want 6", asked)
	}
	if more := c.balance.plan(c.open, others, now); len(more) > 0 {
		t.Errorf("%d more were asked while 6 are moving", len(more))
	}
	if c.balance.plan(c.open, others, now.Add(spreadMoving)); len(c.balance.asked) > 0 || c.stayed != 6 {
		t.Errorf("%d clients that stayed count as moving, %d as staying", len(c.balance.asked), c.stayed)
	}
}

func TestBalance_FewOrBalancedClientsStay(t *testing.T) {
	for _, test := range []struct{ own, other int }{{19, 0}, {11, 10}, {12, 10}, {110, 90}} {
		c := newCrowd(0, test.own)
		for now := time.Unix(0, 0); now.Before(time.Unix(60, 0)); now = now.Add(time.Second) {
			if targets := c.balance.plan(c.open, map[string]int{"b": test.other}, now); len(targets) > 0 {
				t.Errorf("%d and %d clients: %d are to move", test.own, test.other, len(targets))
			}
		}
	}
}

// spreadOf returns the spread of a session that has another one beside it.
func spreadOf(t *testing.T, x *leaseTest, silent *atomic.Bool) *spread {
	here, there := conclave.NodeID{Name: "session-1", Incarnation: "x"}, conclave.NodeID{Name: "session-2", Incarnation: "x"}
	view := wire.NewView()
	_, err := view.Apply(wire.StateOut(wire.State{Members: wire.Members{Epoch: conclave.Epoch{Term: 1, Seq: 1}, List: []wire.Member{
		{Node: here, Role: conclave.RoleSession, Address: "a"}, {Node: there, Role: conclave.RoleSession, Address: "b"},
	}}}, nil))
	require.NoError(t, err)
	log := hclog.NewNullLogger()
	d := &drain{node: here, view: view, clients: x.clients, events: serve.NewEvents("session-1", time.Now), log: log, opened: true, cutOff: silent.Load}
	return &spread{node: here, view: view, drain: d, clients: x.clients, registry: x.registry, stopping: func() bool { return false }, log: log}
}

// A session that does not hear most data nodes asks few clients to move, and all of them once
// one of these has moved. It takes no clients but its own that come back.
func TestSpread_CutOffSessionAsksAllClientsOnceOneHasLeft(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		silent := atomic.Bool{}
		silent.Store(true)
		s := spreadOf(t, x, &silent)
		d := s.drain
		open := map[int]*connection{}
		for i := range 20 {
			open[i] = x.connect(fmt.Sprint("client-", i))
			open[i].Announced = i < 10
		}
		asked := func() (all []int) {
			x.clients.mu.Lock()
			defer x.clients.mu.Unlock()
			for i, conn := range open {
				if conn.asked {
					all = append(all, i)
				}
			}
			return all
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(3*spreadRound + spreadRound/2)
		require.Len(t, asked(), 3, "one in each round")
		for _, i := range asked() {
			assert.False(t, open[i].Announced, "its end would show nothing")
		}
		ready, why := d.ready()
		assert.False(t, ready)
		assert.Equal(t, cutOff, why)
		assert.ErrorContains(t, x.clients.refusal("other"), cutOff)

		gone := asked()[0]
		x.breakOff(open[gone])
		assert.NoError(t, x.clients.refusal(open[gone].Client), "it may find no other session")
		delete(open, gone)
		time.Sleep(spreadRound)
		require.Len(t, asked(), 3, "one that is lost has not moved")

		gone = asked()[0]
		open[gone].moved = true
		x.breakOff(open[gone])
		delete(open, gone)
		time.Sleep(spreadRound)
		assert.Len(t, asked(), 18)

		silent.Store(false)
		time.Sleep(spreadRound)
		assert.NoError(t, x.clients.refusal("other"))
		assert.True(t, d.isOpen())
		time.Sleep(spreadMoving)
	})
}

// A session all of whose clients have a linger asks one of them: nobody else can show that
// another session is better off (storm 27, whose other clients have no SDK).
func TestSpread_ClientWithALingerIsAskedIfAllHaveOne(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		silent := atomic.Bool{}
		silent.Store(true)
		s := spreadOf(t, x, &silent)
		for i := range 3 {
			x.connect(fmt.Sprint("client-", i)).Announced = true
		}
		require.Equal(t, evacuates, s.drain.update())
		s.evacuate(newCrowd(0, 0).balance, time.Now())
		asked := 0
		for _, conn := range x.clients.snapshot() {
			if conn.asked {
				asked++
			}
		}
		assert.Equal(t, 1, asked)
	})
}

// Only a client that was asked because nobody is heard, and that has moved, shows
// that another session is better off.
func TestBalance_OtherEndsDoNotShowAWayOut(t *testing.T) {
	for _, test := range []struct{ cutOff, moved, here, want bool }{
		{true, true, false, true},
		{false, true, false, false}, // the ordinary balance had asked it
		{true, false, false, false}, // it died, or said good-bye
		{true, true, true, false},
	} {
		b, conn, now := newCrowd(0, 0).balance, &connection{Owner: &registry.Owner{}, moved: test.moved}, time.Unix(100, 0)
		b.asked[conn] = move{to: "b", at: now, cutOff: test.cutOff}
		var open []*connection
		if test.here {
			open = append(open, conn)
		}
		b.plan(open, nil, now)
		assert.Equal(t, test.want, b.moved, "%+v", test)
	}
}

// The other sessions may have left the member list since the session found itself
// cut off: nobody is asked then.
func TestEvacuate_WithoutAnAddressAsksNobody(t *testing.T) {
	withLeases(t, func(t *testing.T, x *leaseTest) {
		conn, view := x.connect("client-1"), wire.NewView()
		s := &spread{view: view, drain: &drain{view: view}, clients: x.clients, registry: x.registry}
		s.evacuate(newCrowd(0, 0).balance, time.Now())
		assert.False(t, conn.asked)
	})
}

// A data node answers no more once its feed could not be opened for the limit, whatever
// others do, unless its host refuses the dial or another incarnation has joined.
func TestNodes_AnswersUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns, refused := newNodes(), fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
		_, begun := ns.set(map[string]bool{"a": true, "b": true})
		answering := func() string {
			return fmt.Sprint(ns.answers("a", time.Second, time.Minute), ns.answers("b", time.Second, time.Minute))
		}
		wait := func() { time.Sleep(time.Second + time.Nanosecond) }
		wait()
		assert.Equal(t, "true true", answering(), "no feed has failed")
		ns.hear(begun[0], refused)
		ns.hear(begun[1], io.EOF)
		wait()
		assert.Equal(t, "true false", answering())
		ns.hear(begun[0], io.EOF) // its host is silent from now on
		assert.Equal(t, "true false", answering())
		wait()
		assert.Equal(t, "false false", answering())
		ns.hear(begun[0], nil)
		assert.Equal(t, "true false", answering(), "that one is heard says nothing of the others")
		ns.joined("b")
		ns.joined("unknown")
		assert.Equal(t, "true true", answering())
		wait()
		assert.Equal(t, "true false", answering())
		ns.hear(begun[1], refused)
		assert.Equal(t, "true true", answering())
		time.Sleep(time.Minute)
		assert.Equal(t, "true false", answering(), "a node that lives does not refuse for so long")
	})
}

// A data node is not heard once its feed could not be opened for the limit.
func TestNodes_UnheardForTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNodes()
		_, begun := ns.set(map[string]bool{"a": true, "b": true})
		unheard := func() string { return fmt.Sprint(ns.unheard(time.Second)) }
		time.Sleep(time.Hour)
		assert.Equal(t, "[]", unheard(), "no feed has failed")
		ns.hear(begun[0], io.EOF)
		time.Sleep(time.Second)
		ns.hear(begun[0], io.EOF)
		assert.Equal(t, "[]", unheard())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, "[a]", unheard())
		ns.hear(begun[1], io.EOF)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "[a b]", unheard())
		ns.hear(begun[0], nil)
		assert.Equal(t, "[]", unheard(), "this session was cut off: the silence of the others counts from now")
		time.Sleep(2 * time.Second)
		assert.Equal(t, "[b]", unheard())
		ns.hear(begun[1], nil)
		assert.Equal(t, "[]", unheard())
	})
}
