package zklatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
)

// listening returns a selector that logs the states of its connection, and answers
// them with heed.
func (b *bench) listening(u *user, states *log, heed func(zklatch.ConnectionState) error) (s *zklatch.Selector, began chan context.Context) {
	began = make(chan context.Context, 10)
	s = u.Selector(b.path+"/selector", zklatch.SelectorConfig{ID: "s", AutoRequeue: true,
		TakeLeadership: func(ctx context.Context) error {
			began <- ctx
			<-ctx.Done()
			return nil
		},
		StateChanged: func(state zklatch.ConnectionState) error {
			states.say(state.String())
			return heed(state)
		}})
	require.NoError(b.t, s.Start())
	b.t.Cleanup(s.Close)
	return s, began
}

// Article 004: LeaderSelectorListenerAdapter throws CancelLeadershipException when the
// connection is suspended or lost, which interrupts takeLeadership: the leadership is
// given up although the session continues.
func TestArticleAListenerCancelsTheLeadership(t *testing.T) {
	for name, world := range map[string]func(*testing.T, func(*testing.T, *bench)){"memory": inMemory, "wire": wire} {
		t.Run(name, func(t *testing.T) {
			world(t, func(t *testing.T, b *bench) {
				var states log
				u := b.user()
				_, began := b.listening(u, &states, zklatch.CancelInDoubt)
				ctx := <-began
				other := b.selector("other", false) // with another turn it might come before the first one again
				session, _ := u.Session()
				mend := u.cut()
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), zklatch.ErrCancelLeadership)
				assert.Equal(t, []string{"suspended"}, states.all())
				mend()
				<-other.began
				now, _ := u.Session()
				assert.Equal(t, session.ID, now.ID, "it has given up the leadership, not lost it")
				close(other.enough)
				<-began
			})
		})
	}
}

// A listener that does not cancel keeps the leadership through a short break. Its
// context ends all the same before the session can have ended.
func TestSelector_ListenerToleratesSuspension(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		var states log
		u := b.user()
		s, began := b.listening(u, &states, func(state zklatch.ConnectionState) error {
			if state == zklatch.Suspended {
				return errors.New("this one is only logged")
			}
			return nil
		})
		ctx := <-began
		u.memory.Disconnect()
		synctest.Wait()
		assert.NoError(t, ctx.Err())
		assert.False(t, s.HasLeadership(), "but it must not act now")
		u.memory.Reconnect()
		synctest.Wait()
		assert.NoError(t, ctx.Err())
		assert.True(t, s.HasLeadership())
		assert.Equal(t, []string{"suspended", "reconnected"}, states.all())

		b.server.DropRequest("get", "/nothing") // a break that has ended when it is noticed
		_, _, err := u.Get(t.Context(), "/nothing")
		assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
		synctest.Wait()
		assert.Equal(t, []string{"suspended", "reconnected", "suspended", "reconnected"}, states.all())

		other := b.selector("other", true)
		u.memory.Disconnect()
		cut := time.Now()
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), zklatch.ErrSuspended)
		assert.Equal(t, timeout-timeout/10, time.Since(cut), "a margin before the session ends")
		<-other.began
		assert.Equal(t, timeout, time.Since(cut))
		synctest.Wait()
		assert.Equal(t, []string{"suspended", "lost"}, states.all()[4:])
	})
}

// A loss that ends the leadership at the same moment is reported.
func TestSelector_ListenerReceivesLoss(t *testing.T) {
	inMemory(t, func(t *testing.T, b *bench) {
		for range 20 {
			var states log
			u := b.user()
			s, began := b.listening(u, &states, func(zklatch.ConnectionState) error { return nil })
			ctx := <-began
			session, _ := u.Session()
			b.server.Expire(session.ID)
			<-ctx.Done()
			<-began // it has stood again
			assert.Equal(t, []string{"lost"}, states.all())
			s.Close()
		}
	})
}

// What CancelInDoubt cancels, and how the states are called.
func TestCancelInDoubt(t *testing.T) {
	for state, cancels := range map[zklatch.ConnectionState]bool{zklatch.Suspended: true, zklatch.Reconnected: false, zklatch.Lost: true} {
		assert.Equal(t, cancels, errors.Is(zklatch.CancelInDoubt(state), zklatch.ErrCancelLeadership), "%v", state)
	}
	assert.Equal(t, "suspended reconnected lost", fmt.Sprint(zklatch.Suspended, " ", zklatch.Reconnected, " ", zklatch.Lost))
}
