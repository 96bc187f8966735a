package client_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// These tests are about what a client sends to a new session: when it has lost
// one, and when it is asked to move.

// A session is lost: the client is at another at once, and sends it everything,
// each registration at its newest version.
func TestReplayAtAnotherSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		c := w.client(one)
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		var pubs []*client.Publication
		for i := range 20 {
			pubs = append(pubs, stored(ctx, t, c, fmt.Sprint("svc-", i), "a"))
		}
		require.NoError(t, pubs[3].Update([]string{"b"}))
		require.NoError(t, pubs[4].Withdraw())
		require.NoError(t, pubs[3].Stored(ctx))
		require.NoError(t, pubs[4].Stored(ctx))
		two := w.session("s2")
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{one.address, two.address}}
		time.Sleep(time.Millisecond)
		start := time.Now()
		w.net.Kill("s1")
		w.eventually("all is at s2", func() bool { return two.link() != nil && len(two.link().registered()) == 20 })
		assert.Less(t, time.Since(start), 5*time.Millisecond)
		assert.EqualValues(t, 2, two.link().registered()[pubs[3].ID()].GetVersion())
		assert.EqualValues(t, 1, two.link().registered()[pubs[5].ID()].GetVersion())
		assert.True(t, two.link().registered()[pubs[4].ID()].GetWithdrawn(), "sent again, for a while")
		require.ErrorIs(t, pubs[4].Update(nil), client.ErrWithdrawn)
	})
}

// A withdrawal that is not known to be stored is sent to the next session.
func TestTombstoneIsReplayedUntilStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		two.set(func() { two.refuse = errors.New("not yet") })
		c := w.client(one, two)
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		p := stored(ctx, t, c, "svc", "a")
		one.set(func() { one.accept = true })
		require.NoError(t, p.Withdraw())
		require.NoError(t, p.Accepted(ctx))
		two.set(func() { two.refuse = nil })
		w.net.Kill("s1")
		require.NoError(t, p.Stored(ctx))
		assert.True(t, two.link().registered()[p.ID()].GetWithdrawn())
	})
}

// A client that is asked to move connects to another session first, and leaves
// the old one only when the other has acknowledged everything as stored.
func TestMove_LeavesWhenTheOtherHasStoredEverything(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		ctx, cancel := within(20 * time.Second)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
		two.set(func() { two.accept = true })
		old := one.link()
		w.eventually("it is subscribed", func() bool { return len(old.subscriptions()) == 1 })
		old.push("svc", 7, "a")
		old.out <- &wirev1.ServerMessage{Sessions: []string{two.address}, Move: &wirev1.Move{Reason: "drain"}}
		w.eventually("it is sent to s2", func() bool { return two.link() != nil && len(two.link().registered()) == 1 })
		time.Sleep(10 * time.Second)
		assert.False(t, old.isEnded(), "s2 has not stored it yet")
		assert.Len(t, c.Connected(), 2)
		require.NoError(t, p.Update([]string{"b"}))
		w.eventually("both receive the update", func() bool {
			return old.registered()[p.ID()].GetVersion() == 2 && two.link().registered()[p.ID()].GetVersion() == 2
		})
		seen := two.link().subscriptions()[0]
		assert.EqualValues(t, 7, seen.GetVersion(), "the subscription names the last push")
		assert.Equal(t, list.ContentHash([]string{"a"}), seen.GetHash())
		assert.EqualValues(t, 1, seen.GetCount())

		two.link().out <- &wirev1.ServerMessage{Stored: []*wirev1.Ack{{Id: p.ID(), Version: 2}}}
		w.eventually("the old one is left", old.isEnded)
		for _, m := range old.messages() {
			assert.False(t, m.GetGoodbye(), "without a good-bye: nothing is withdrawn")
		}
		assert.False(t, two.link().isEnded())
		assert.EqualValues(t, 7, (<-sub.C()).Version)
		two.link().push("svc", 6, "stale")
		two.link().push("svc", 8, "b")
		assert.EqualValues(t, 8, (<-sub.C()).Version, "an older push is dropped")
	})
}

// A withdrawal or refusal while the client moves is answered by two sessions.
// Whichever answers first, the move ends.
func TestMoveEndsWithAWithdrawalInFlight(t *testing.T) {
	for _, refused := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			one, two := w.session("s1"), w.session("s2")
			c := w.client(one)
			ctx, cancel := within(20 * time.Second)
			defer cancel()
			p := stored(ctx, t, c, "svc", "a")
			one.set(func() { one.accept = true })
			two.set(func() { two.accept = true })
			require.NoError(t, p.Withdraw())
			old := one.link()
			old.out <- &wirev1.ServerMessage{Sessions: []string{two.address}, Move: &wirev1.Move{Reason: "drain"}}
			w.eventually("it is sent to s2", func() bool { return two.link() != nil && len(two.link().registered()) == 1 })
			answer := &wirev1.ServerMessage{Stored: []*wirev1.Ack{{Id: p.ID(), Version: 2}}}
			if refused {
				answer = &wirev1.ServerMessage{Refused: []*wirev1.Refusal{{Id: p.ID(), Code: "conflict"}}}
			}
			old.out <- answer
			time.Sleep(time.Second)
			two.link().out <- answer
			w.eventually("the old one is left", old.isEnded)
		})
	}
}

// A stored withdrawal is sent to the next session again, after what replaced
// it; its acknowledgement or refusal does not concern the application.
func TestReplay_RepeatsAStoredWithdrawal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		ctx, cancel := within(20 * time.Second)
		defer cancel()
		goes, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		stays := stored(ctx, t, c, "svc", "b")
		require.NoError(t, goes.Withdraw())
		require.NoError(t, goes.Stored(ctx))

		two.set(func() {
			two.check = func(id string) *wirev1.Refusal {
				if id == goes.ID() {
					return &wirev1.Refusal{Id: id, Code: "conflict"}
				}
				return nil
			}
		})
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{two.address}}
		time.Sleep(10 * time.Second)
		w.net.Kill("s1")
		w.eventually("both are sent to s2", func() bool { return two.link() != nil && len(two.link().registered()) == 2 })
		sent := two.link().messages()[1].GetPublishers()
		require.Len(t, sent, 2)
		assert.Equal(t, goes.ID(), sent[0].GetId())
		assert.True(t, sent[0].GetWithdrawn())
		assert.EqualValues(t, 2, sent[0].GetVersion())
		assert.Equal(t, stays.ID(), sent[1].GetId())
		stored(ctx, t, c, "svc", "c") // so the refusal has arrived as well
		assert.NoError(t, goes.Err(), "data has it: a refusal of the repetition is no error")
	})
}

// A withdrawal is sent for as long as sessions and data remember it, and then
// forgotten.
func TestReplay_ForgetsAnOldWithdrawal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		ctx, cancel := within(20 * time.Second)
		defer cancel()
		p := stored(ctx, t, c, "svc", "a")
		require.NoError(t, p.Withdraw())
		require.NoError(t, p.Stored(ctx))
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{two.address}}
		time.Sleep(17 * time.Second) // 15, and one ping
		w.net.Kill("s1")
		w.eventually("connected to s2", func() bool { return two.link() != nil })
		time.Sleep(time.Second)
		assert.Empty(t, two.link().registered())
	})
}

// A client that is asked to move without another session stays as long as it
// may.
func TestMove_StaysWithoutAnotherSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		c := w.client(one)
		w.eventually("connected", func() bool { return one.link() != nil })
		one.link().out <- &wirev1.ServerMessage{Move: &wirev1.Move{Reason: "drain"}}
		time.Sleep(3 * time.Second)
		ctx, cancel := within(time.Second)
		defer cancel()
		stored(ctx, t, c, "svc")
	})
}
