package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session/registry"
	"conclave/wire/admit"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// fullSession is a session without room, and a connection of a client that has
// registered "held" before.
type fullSession struct {
	*clientService
	conn     *connection
	extended int
	accepted []string // "id version", in order
	refused  []string
}

// newFullSession is called in a bubble.
func newFullSession(t *testing.T) *fullSession {
	now := time.Now()
	r := registry.New(time.Hour, 0, nil)
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	s := &fullSession{clientService: &clientService{registry: &locked{Registry: r}, wakeWriters: func() {}, refusals: prometheus.NewCounter(prometheus.CounterOpts{})}}
	s.room = &room{registry: s.registry, limit: 1 << 30, waits: prometheus.NewCounter(prometheus.CounterOpts{})}
	s.conn = &connection{Owner: &registry.Owner{Identity: "app"}, extend: func() { s.extended++ }}
	s.conn.waiting = &backlog[*wirev1.Publisher]{size: sizeOf, own: maxWaiting, intake: admit.New(intakeAll, intakeEach)}
	s.conn.identity.Name, s.conn.identity.Right = "app", rights.Publish
	s.conn.Renew(now, time.Hour)
	s.conn.out = &outbox{unread: func() {}, failed: func() {}, send: func(m *wirev1.ServerMessage) error {
		for _, a := range m.GetAccepted() {
			s.accepted = append(s.accepted, fmt.Sprint(a.GetId(), " ", a.GetVersion()))
		}
		for _, x := range m.GetRefused() {
			s.refused = append(s.refused, x.GetId()+" "+x.GetMessage())
		}
		return nil
	}}
	s.take(t.Context(), versions("held", 1))
	s.room.limit = r.Unsent()
	return s
}

// versions returns a registration in a version.
func versions(id string, version int64) []*wirev1.Publisher {
	return []*wirev1.Publisher{{Id: id, DataInfoId: "a#@#b#@#c", Version: version, Values: []string{"value"}}}
}

// take registers what the client sends, and waits until it is answered as far as it
// can be.
func (s *fullSession) take(ctx context.Context, publishers []*wirev1.Publisher) {
	s.register(ctx, s.conn, publishers)
	synctest.Wait()
}

// settle lets data store everything that is queued.
func (s *fullSession) settle() {
	s.registry.do(func(r *registry.Registry) {
		for n := range uint64(4) {
			r.Settle(r.Take(0, "data-1", registry.Order(0)[n], 1<<20, 1<<20, time.Now()), time.Now())
		}
	})
	s.room.settled.Notify()
	synctest.Wait()
}

// New registrations wait until data has stored earlier ones. Meanwhile what follows
// them on the stream and replaces something is taken.
func TestRoom_NewRegistrationsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		s.take(t.Context(), versions("new", 1))
		s.take(t.Context(), versions("other", 1))
		s.take(t.Context(), versions("held", 2))
		s.take(t.Context(), []*wirev1.Publisher{{Id: "gone", DataInfoId: "a#@#b#@#c", Version: 2, Withdrawn: true}})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"held 1", "held 2", "gone 2"}, s.accepted)
		s.settle()
		assert.Equal(t, []string{"held 1", "held 2", "gone 2", "new 1", "other 1"}, s.accepted)
		assert.Empty(t, s.refused)
		assert.Zero(t, s.conn.waiting.bytes)
		s.conn.waiting.serving.Wait()
	})
}

// What a client has registered that does not ping any more is not written to data, and
// takes no room of others.
func TestRoom_WhatIsHeldBackTakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		s.settle()
		silent := &registry.Owner{Client: "silent", Identity: "app"}
		silent.Renew(time.Now(), time.Hour)
		s.registry.do(func(r *registry.Registry) {
			_, err := r.Put(silent, &wirev1.Publisher{Id: "silent", DataInfoId: "a#@#b#@#c", Version: 1, Values: []string{"value"}}, time.Now())
			require.NoError(t, err)
			s.room.limit = r.Unsent()
		})
		time.Sleep(registry.FreshFor(time.Hour))
		s.conn.Renew(time.Now(), time.Hour)
		s.take(t.Context(), versions("new", 1))
		assert.NotContains(t, s.accepted, "new 1")
		w := &writer{calls: &calls{registry: s.registry}, settled: s.room.settled.Notify}
		_, parts, _ := w.gather("data-1", newBackoff(nil), &cursor{last: -1, most: writeFirst}, time.Now())
		assert.Empty(t, parts, "it is held back")
		synctest.Wait()
		assert.Contains(t, s.accepted, "new 1")
		s.conn.waiting.serving.Wait()
	})
}

// A newer version takes the place of one that waits: no registration overtakes
// itself, and none that was withdrawn comes back.
func TestRoom_NewerVersionReplacesTheOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		s.take(t.Context(), append(versions("changed", 1), versions("withdrawn", 1)...))
		s.take(t.Context(), versions("changed", 2))
		withdrawal := versions("withdrawn", 2)
		withdrawal[0].Withdrawn, withdrawal[0].Values = true, nil
		s.take(t.Context(), withdrawal)
		s.settle()
		assert.Equal(t, []string{"held 1", "withdrawn 2", "changed 2"}, s.accepted)
		assert.Empty(t, s.refused)
		assert.Equal(t, 2, with(s.registry, (*registry.Registry).Live), "held and changed")
	})
}

// The same within one message, in whatever order it has them.
func TestRoom_HighestVersionOfAMessageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		s.take(t.Context(), append(versions("falling", 2), versions("falling", 1)...))
		s.take(t.Context(), append(versions("rising", 1), versions("rising", 2)...))
		s.settle()
		assert.Equal(t, []string{"held 1", "falling 2", "rising 2"}, s.accepted)
		assert.Empty(t, s.refused)
	})
}

// A client that sends more than may wait is read no further, and its stream is
// kept meanwhile; the end of the stream ends the wait, and what waits is forgotten.
func TestRoom_ClientThatSendsTooMuchIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var many []*wirev1.Publisher
		for i := range 1 + maxWaiting>>10 {
			many = append(many, versions(fmt.Sprint("new ", i), 1)...)
			many[i].Values[0] = strings.Repeat("x", 1<<10)
		}
		read := make(chan bool)
		begin := func(p []*wirev1.Publisher) {
			go func() {
				s.register(ctx, s.conn, p)
				read <- true
			}()
			synctest.Wait()
		}
		begin(many)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		assert.Empty(t, read)
		assert.Equal(t, 1, s.extended)
		s.room.limit = 1 << 30
		s.settle()
		require.True(t, <-read)
		assert.Len(t, s.accepted, 1+len(many))

		s.room.limit = 0
		for _, p := range many {
			p.Id = "too late " + p.Id
		}
		begin(many)
		cancel()
		require.True(t, <-read)
		s.conn.waiting.serving.Wait()
		assert.Len(t, s.accepted, 1+len(many))
	})
}

// A registration that is larger than all that may wait waits beside it: the stream is
// read on, and what is urgent is taken. It counts for its address, whose limit refuses
// another one.
func TestRoom_LargeRegistrationDoesNotBlockTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFullSession(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.conn.waiting.intake = admit.New(1<<20, 500<<10)
		large := func(id string) []*wirev1.Publisher {
			p := versions(id, 1)
			for range 5 {
				p[0].Values = append(p[0].Values, strings.Repeat("x", 60<<10))
			}
			return p
		}
		s.take(ctx, large("large"))
		s.take(ctx, versions("held", 2))
		assert.Equal(t, []string{"held 1", "held 2"}, s.accepted)
		s.take(ctx, large("too much"))
		require.Len(t, s.refused, 1)
		assert.Contains(t, s.refused[0], "bytes are too many to wait")
		s.take(ctx, versions("small", 1))

		s.settle()
		assert.Equal(t, []string{"held 1", "held 2", "large 1"}, s.accepted, "there is no room for more")
		assert.True(t, s.conn.waiting.intake.Empty())
		s.settle()
		assert.Equal(t, []string{"held 1", "held 2", "large 1", "small 1"}, s.accepted)
		s.take(ctx, large("forgotten"))
		assert.False(t, s.conn.waiting.intake.Empty())
		s.conn.waiting.forget()
		assert.True(t, s.conn.waiting.intake.Empty())
		s.settle()
		s.conn.waiting.serving.Wait()
	})
}
