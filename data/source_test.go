package data_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// silentSource is a hand-over whose source does not answer at first. Its copy is
// ahead of the successor's by what a session has stored that is lost since.
type silentSource struct {
	*cluster
	a           *fakeSource
	b           *node
	lost, alive *session
	from        conclave.Epoch // the leader epoch of the source
	id          string
}

func switchFromSilentSource(t *testing.T, c *cluster) *silentSource {
	s := &silentSource{cluster: c, a: c.source("data-1"), lost: c.session("session-1", true), alive: c.session("session-2", true), id: dataIDIn(0, 1)}
	s.b = c.data("data-2")
	s.from = c.stable(1, s.a.id, s.b.id)
	s.a.events <- whole(s.from, 5, copyOf(s.lost.id, pub(s.id, "r1", 1, "old")), copyOf(s.alive.id, pub(s.id, "r2", 1, "withdrawn")))
	eventually(t, time.Second, "caught up", func() bool { return s.b.state(0) == slot.CaughtUp })
	s.a.finish = func() (*wirev1.FinishedSlot, error) {
		time.Sleep(time.Minute)
		return nil, wire.Errorf(wire.CodeUnavailable, "too late")
	}
	s.alive.put(pub(s.id, "r3", 1, "new"))
	s.lost.kill()
	c.evict("session-1")
	c.switchTo(0, s.b.id)
	never(t, 3*time.Second, "served without the source or the lost session", func() bool { return s.b.state(0) == slot.Serving })
	return s
}

func (s *silentSource) values(t *testing.T) []string {
	v, ok := s.alive.read(s.id)
	require.True(t, ok)
	return v
}

// What only the source has is taken from it, although it was silent at first;
// what the living sessions answered comes after that.
func TestHandOver_SilentSourceIsAskedAgainForALostSession(t *testing.T) {
	feeds := map[string]func(*silentSource) *wirev1.ReplicateEvent{
		"the rest of the feed": func(s *silentSource) *wirev1.ReplicateEvent {
			return part(s.from, 5, 6, copyOf(s.lost.id, pub(s.id, "r1", 2, "stored")))
		},
		"a snapshot": func(s *silentSource) *wirev1.ReplicateEvent {
			return whole(s.from, 6, copyOf(s.lost.id, pub(s.id, "r1", 2, "stored")), copyOf(s.alive.id, pub(s.id, "r2", 1, "withdrawn")))
		},
	}
	for name, feed := range feeds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				s := switchFromSilentSource(t, c)
				s.a.finish = func() (*wirev1.FinishedSlot, error) {
					s.a.events <- feed(s) // after the sessions have answered
					return &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(s.from), Position: 6}, nil
				}
				eventually(t, 3*time.Second, "serving", func() bool { return s.b.state(0) == slot.Serving })
				assert.Equal(t, []string{"stored", "new"}, s.values(t))
			})
		})
	}
}

// The source is waited for only while it may have something to give.
func TestHandOver_SilentSourceIsGivenUp(t *testing.T) {
	t.Run("not a member any more", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			s := switchFromSilentSource(t, c)
			c.evict("data-1")
			eventually(t, 2*time.Second, "serving", func() bool { return s.b.state(0) == slot.Serving })
			assert.Equal(t, []string{"old", "new"}, s.values(t))
			f, _, err := s.alive.fetch(s.alive.learn(0), s.id)
			require.NoError(t, err)
			assert.Positive(t, f.GetUnconfirmedMs(), "a session that was lost did not answer")
		})
	})
	t.Run("it has no copy", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			s := switchFromSilentSource(t, c)
			s.a.finish = answerMoved
			eventually(t, 2*time.Second, "serving", func() bool { return s.b.state(0) == slot.Serving })
			assert.Equal(t, []string{"old", "new"}, s.values(t))
		})
	})
	t.Run("a node lease and a session grace have passed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			s := switchFromSilentSource(t, c)
			never(t, 14*time.Second, "served too early", func() bool { return s.b.state(0) == slot.Serving })
			eventually(t, 3*time.Second, "serving", func() bool { return s.b.state(0) == slot.Serving })
			assert.Equal(t, []string{"old", "new"}, s.values(t))
		})
	})
}
