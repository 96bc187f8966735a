package data_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A write is on the feed as soon as it is answered: names only, with positions
// that leave no gap.
func TestWatch_SendsWriteAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := serving(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		f := s1.watch(ctx, a)
		synctest.Wait()
		first := f.changes()
		require.Len(t, first, 1, "a feed begins with what is served")
		assert.True(t, first[0].GetReset_())
		position := first[0].GetPosition()

		d := dataIDIn(0, 1)
		for v := int64(1); v <= 3; v++ {
			s1.store(pub(d, "r1", v, fmt.Sprint(v)))
			synctest.Wait()
			got := f.changes()
			last := got[len(got)-1]
			assert.Equal(t, []string{d}, last.GetDataInfoIds())
			assert.Equal(t, position, last.GetFrom())
			assert.Greater(t, last.GetPosition(), position)
			position = last.GetPosition()
		}
		n := len(f.changes())
		s1.store(pub(d, "r1", 3, "3")) // already stored
		time.Sleep(10 * time.Second)
		assert.Len(t, f.changes(), n)
		f.mu.Lock()
		assert.Greater(t, len(f.events), n+8, "a silent feed beats each second")
		f.mu.Unlock()

		// Another node takes over: the feed reports that this node does not
		// serve the slot any more.
		c.prepare(0, b.id)
		eventually(t, time.Second, "b follows", func() bool { return b.state(0) == slot.CaughtUp })
		g := s1.watch(ctx, b)
		c.switchTo(0, b.id)
		eventually(t, time.Second, "b serves", func() bool { return b.state(0) == slot.Serving })
		got := f.changes()
		assert.True(t, got[len(got)-1].GetEnded())
		got = g.changes()
		require.NotEmpty(t, got)
		assert.True(t, got[len(got)-1].GetReset_())
		cancel()
		<-f.ended
		<-g.ended
	})
}

// A small change of what a session has read is in its feed; all else is only named.
func TestWatch_CarriesWhatTheSessionHasRead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		f, older := s1.watchAnswers(t.Context(), a, true), c.session("session-2", true).watch(t.Context(), a)
		time.Sleep(time.Minute) // the slot is not marked any more
		d := dataIDIn(0, 1)
		version := int64(0)
		change := func(value string) *wirev1.SlotChange {
			version++
			s1.store(pub(d, "r1", version, value))
			synctest.Wait()
			named := older.changes()
			require.Equal(t, []string{d}, named[len(named)-1].GetDataInfoIds(), "a session of an older build is sent names")
			got := f.changes()
			return got[len(got)-1]
		}
		carried := func(value, why string) {
			t.Helper()
			time.Sleep(time.Second)
			got := change(value)
			assert.Empty(t, got.GetDataInfoIds(), why)
			require.Len(t, got.GetAnswers(), 1, why)
			read, _, err := s1.fetch(s1.learn(0), d)
			require.NoError(t, err)
			assert.True(t, proto.Equal(read, got.GetAnswers()[0]), "%s: it is what a Fetch is answered", why)
		}
		named := func(value, why string) {
			t.Helper()
			got := change(value)
			assert.Equal(t, []string{d}, got.GetDataInfoIds(), why)
			assert.Empty(t, got.GetAnswers(), why)
		}
		named("1", "it was not read")
		_, read := s1.read(d)
		require.True(t, read)
		named("2", "within a push window")
		carried("3", "it was read")
		carried("4", "again")
		time.Sleep(time.Second)
		named(strings.Repeat("large", 1000), "it is large")
		_, _ = s1.read(d)
		carried("5", "it was read again")

		burst := []*wirev1.Publisher{pub(d, "m", 1, "v")}
		for i := range 16 {
			burst = append(burst, pub(idIn(fmt.Sprint("burst", i, "-"), 0, 1), "m", 1, "v"))
		}
		time.Sleep(time.Second)
		_, err := s1.write(s1.learn(0), 0, burst)
		require.NoError(t, err)
		synctest.Wait()
		got := f.changes()
		assert.Len(t, got[len(got)-1].GetDataInfoIds(), 17, "a burst is named")

		_, _ = s1.read(d)
		unasked := 0
		for range 300 {
			time.Sleep(time.Second)
			unasked += len(change(fmt.Sprint(version)).GetAnswers())
		}
		assert.Equal(t, 256, unasked, "a session that does not ask again may not want it any more")

		s1.store(pub(d, "m", 1, "v"))
		_, _ = s1.read(d)
		time.Sleep(time.Second)
		_, err = s1.write(s1.learn(0), 0, nil, &wirev1.Removal{Id: "m", DataInfoId: d, Version: 1, Cause: wirev1.Cause_CAUSE_CLIENTS_GONE})
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond) // more than the push window
		named("7", "it is marked")
	})
}

// Changes that a slow session has not read are merged instead of queued.
func TestWatch_MergesPendingChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		c.latency = 50 * time.Millisecond
		slow := c.session("session-2", true)
		f := slow.watch(t.Context(), a)
		time.Sleep(time.Second)
		d := dataIDIn(0, 1)
		for v := int64(1); v <= 100; v++ {
			s1.store(pub(d, "r1", v, fmt.Sprint(v)))
		}
		time.Sleep(time.Second)
		got := f.changes()
		assert.LessOrEqual(t, len(got), 102)
		last := got[len(got)-1]
		for i := range got[1:] {
			assert.Equal(t, got[i].GetPosition(), got[i+1].GetFrom(), "no gap")
		}
		assert.Equal(t, []string{d}, last.GetDataInfoIds())
	})
}

// A follower reads the snapshot and the feed, and a broken stream is resumed.
func TestFollower_StaysCurrentWhenStreamBreaks(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		c.latency = time.Microsecond
		a, b := serving(t, c)
		d := dataIDIn(0, 1)
		for i := range 1500 { // several parts
			s1.store(pub(d, fmt.Sprint("r", i), 1, "v"))
		}
		same := func() bool { return publishers(b, 0) == publishers(a, 0) }
		eventually(t, time.Second, "b has all", same)

		for i := range 5 {
			c.slow["data-2"].sever()
			s1.store(pub(d, fmt.Sprint("late", i), 1, "v"))
			eventually(t, 3*time.Second, "b is current again", func() bool {
				r, _ := c.report(b.id, 0)
				return r.LagMs == 0 && r.State == slot.CaughtUp && r.Position == position(a, 0)
			})
		}
		assert.Equal(t, 1505, publishers(b, 0))
	})
}

func TestFollower_LoadsFeedWithGapAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1 := c.source("data-1"), c.session("session-1", true)
		b := c.data("data-2")
		d := dataIDIn(0, 1)
		e1 := c.stable(1, a.id, b.id)
		a.events <- whole(e1, 5, copyOf(s1.id, pub(d, "r1", 1, "v1")))
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		a.events <- part(e1, 7, 8, copyOf(s1.id, pub(d, "r3", 1, "v3"))) // 6 and 7 are missing
		eventually(t, 2*time.Second, "requested again", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			last := a.follows[len(a.follows)-1]
			return len(a.follows) == 2 && last.GetPosition() == 5
		})
		r, _ := c.report(b.id, 0)
		assert.Equal(t, uint64(5), r.Position, "no part of the message was applied")
		a.events <- whole(conclave.Epoch{Term: 1, Seq: 1}, 99, copyOf(s1.id, pub(d, "r9", 1, "v9"))) // late, of another epoch
		never(t, 100*time.Millisecond, "applied", func() bool { r, _ := c.report(b.id, 0); return r.Position != 5 })
		a.events <- whole(e1, 8, copyOf(s1.id, pub(d, "r3", 1, "v3")))
		eventually(t, time.Second, "loaded", func() bool { r, _ := c.report(b.id, 0); return r.Position == 8 })
		assert.Equal(t, 1, publishers(b, 0), "the snapshot replaced what was held")
	})
}

// A write is checked as a whole before any of it is applied; whether it is
// accepted is decided for each slot.
func TestWrite_RefusedRequestChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, b := serving(t, c)
		e := c.table().Slots[0].LeaderEpoch
		d := dataIDIn(0, 1)
		good := pub(d, "r1", 1, "v1")
		session := wire.NodeOut(s1.id)
		batch := func(slot uint32, puts ...*wirev1.Publisher) []*wirev1.SlotBatch {
			return []*wirev1.SlotBatch{{LeaderEpoch: wire.EpochOut(e), Puts: []*wirev1.Publisher{good}}, {Slot: slot, LeaderEpoch: wire.EpochOut(e), Puts: puts}}
		}
		for name, m := range map[string]*wirev1.WriteRequest{
			"no session":  {Batches: batch(0, good)},
			"no such":     {Session: session, Batches: batch(9, good)},
			"broken id":   {Session: session, Batches: batch(0, &wirev1.Publisher{Id: "r", DataInfoId: "x", Version: 1})},
			"no version":  {Session: session, Batches: batch(0, &wirev1.Publisher{Id: "r", DataInfoId: d})},
			"no reg. id":  {Session: session, Batches: batch(0, &wirev1.Publisher{DataInfoId: d, Version: 1})},
			"large value": {Session: session, Batches: batch(0, &wirev1.Publisher{Id: "r", DataInfoId: d, Version: 1, Values: []string{string(make([]byte, conclave.MaxValue+1))}})},
		} {
			_, err := s1.peers.Data(a.Address()).Write(t.Context(), connect.NewRequest(m))
			code := wire.CodeOf(wire.FromConnect(err))
			assert.Contains(t, []wire.Code{wire.CodeBadRequest, wire.CodeTooLarge}, code, name)
			v, _ := s1.read(d)
			assert.Empty(t, v, name)
		}
		access, err := s1.write(sessionRoute{e, b.Address()}, 0, []*wirev1.Publisher{pub(d, "r1", 1, "v1")})
		assert.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MOVED, access)
		access, err = s1.write(sessionRoute{conclave.Epoch{Term: 9}, a.Address()}, 0, []*wirev1.Publisher{pub(d, "r1", 1, "v1")})
		assert.NoError(t, err)
		assert.Equal(t, wirev1.Access_ACCESS_MISMATCH, access)
	})
}

// A large answer is cut between two data, never within one.
func TestFetch_CutsLargeAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		var wants []*wirev1.Want
		for i := range 100 {
			d := idIn(fmt.Sprint("big", i, "-"), 0, 1)
			s1.store(pub(d, fmt.Sprint("r", i), 1, string(make([]byte, conclave.MaxValue))))
			wants = append(wants, &wirev1.Want{DataInfoId: d})
		}
		res, err := s1.peers.Data(a.Address()).Fetch(t.Context(), connect.NewRequest(&wirev1.FetchRequest{
			Session: wire.NodeOut(s1.id), Slots: []*wirev1.FetchSlot{{LeaderEpoch: wire.EpochOut(c.table().Slots[0].LeaderEpoch), Wants: wants}},
		}))
		require.NoError(t, err)
		got := res.Msg.GetSlots()[0].GetDatums()
		assert.Less(t, len(got), 70)
		for i, f := range got {
			assert.Equal(t, wants[i].GetDataInfoId(), f.GetDatum().GetDataInfoId(), "in the order of the wants")
			assert.Len(t, f.GetDatum().GetValues(), 1)
		}
	})
}

// The end of a snapshot whose beginning was dropped must not be taken for the
// whole.
func TestFollower_EndOfSnapshotAloneIsNoCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, s1 := c.source("data-1"), c.session("session-1", true)
		b := c.data("data-2")
		d := dataIDIn(0, 1)
		e1 := c.stable(1, a.id, b.id)
		tail := whole(e1, 5, copyOf(s1.id, pub(d, "r2", 1, "v2")))
		tail.SnapshotBegin = false
		a.events <- tail
		eventually(t, 50*time.Millisecond, "asked again", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.follows) == 2 && a.follows[1].GetPosition() == 0
		})
		eventually(t, 50*time.Millisecond, "b follows", func() bool { return b.state(0) == slot.Following })
		a.events <- whole(e1, 5, copyOf(s1.id, pub(d, "r1", 1, "v1")), copyOf(s1.id, pub(d, "r2", 1, "v2")))
		eventually(t, time.Second, "caught up", func() bool { return b.state(0) == slot.CaughtUp })
		assert.Equal(t, 2, publishers(b, 0))
	})
}

// A write was delayed on a connection that its session gave up long ago. It
// arrives after newer writes of the session, at the same epoch.
func TestWrite_OlderRequestIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		d := dataIDIn(0, 1)
		write := func(number uint64, b *wirev1.SlotBatch) wirev1.Access {
			b.LeaderEpoch = wire.EpochOut(c.table().Slots[0].LeaderEpoch)
			res, err := s1.peers.Data(a.Address()).Write(t.Context(), connect.NewRequest(&wirev1.WriteRequest{
				Session: wire.NodeOut(s1.id), Number: number, Batches: []*wirev1.SlotBatch{b},
			}))
			require.NoError(t, err)
			return res.Msg.GetResults()[0].GetAccess()
		}
		put := &wirev1.SlotBatch{Puts: []*wirev1.Publisher{pub(d, "r1", 1, "v1")}}
		removal := &wirev1.SlotBatch{Removals: []*wirev1.Removal{{Id: "r1", DataInfoId: d, Version: 1, Cause: wirev1.Cause_CAUSE_CLIENT_GONE}}}
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, write(7, put))
		assert.Equal(t, wirev1.Access_ACCESS_MISMATCH, write(6, removal), "late")
		assert.Equal(t, 1, publishers(a, 0))
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, write(7, put), "the same again")
		assert.Equal(t, wirev1.Access_ACCESS_ACCEPT, write(8, removal))
		assert.Equal(t, 0, publishers(a, 0))
	})
}

// A stream of writes ends after the answer at which the node has another table than when
// it began, and with the error of a request.
func TestWrites_EndWithTheTable(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s1 := c.session("session-1", true)
		a, _ := serving(t, c)
		d := dataIDIn(0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := s1.peers.Data(a.Address()).Writes(ctx)
		write := func(version int64) error {
			b := &wirev1.SlotBatch{LeaderEpoch: wire.EpochOut(c.table().Slots[0].LeaderEpoch), Puts: []*wirev1.Publisher{pub(d, "r1", version, "v")}}
			_ = stream.Send(&wirev1.WriteRequest{Session: wire.NodeOut(s1.id), Batches: []*wirev1.SlotBatch{b}}) // Receive has the reason
			res, err := stream.Receive()
			if err == nil {
				require.Equal(t, wirev1.Access_ACCESS_ACCEPT, res.GetResults()[0].GetAccess())
			}
			return err
		}
		require.NoError(t, write(1))
		require.NoError(t, write(2))
		c.row(0, func(*slot.Slot) {})
		version := int64(2)
		eventually(t, time.Second, "it has ended", func() bool { version++; return errors.Is(write(version), io.EOF) })
		stream = s1.peers.Data(a.Address()).Writes(ctx)
		require.NoError(t, write(version))
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(wire.FromConnect(write(-1))))
		assert.Equal(t, 1, publishers(a, 0))
	})
}
