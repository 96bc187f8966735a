package scenario

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/testbed"
	"conclave/wire"
)

// A list is missing if it has not been full for longer than a change takes to
// arrive: one whose next value is on the way is not.
func TestLoad_ChangingListIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTraffic(Load{Clients: 2, Names: 2}, nil, nil, 0)
		l.clients = map[string]*worker{"client-1": {}, "client-2": {}}
		l.live["client-1/1"], l.names["client-1/1"] = "client-1/1#1", "service-1"
		sees := func(client string, values ...string) { l.last[[2]string{client, "service-1"}] = values }
		sees("client-1", "client-1/1#1")
		looks := func() bool { full, _ := l.full(); return full }
		assert.False(t, looks())
		assert.Equal(t, []string{"client-2 service-1"}, l.lacking(changing), "never full")

		sees("client-2", "client-1/1#1")
		assert.True(t, looks())
		l.live["client-1/1"] = "client-1/1#2"
		assert.False(t, looks())
		assert.Empty(t, l.lacking(changing), "full a moment ago")

		sees("client-1", "client-1/1#2")
		for range 3 {
			time.Sleep(changing / 2)
			assert.False(t, looks())
		}
		assert.Equal(t, []string{"client-2 service-1"}, l.lacking(changing))
	})
}

// At a high level of load the next value is always on the way: no publisher is
// missing then.
func TestTraffic_ChangingValueIsNotAMissingPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewTraffic(Load{Clients: 1, Names: 1}, nil, nil, 1)
		l.clients = map[string]*worker{"client-1": {}}
		list := [2]string{"client-1", "service-1"}
		for _, tag := range []string{"client-1/1", "client-2/2"} {
			l.live[tag], l.names[tag] = tag+"#10", "service-1"
		}
		l.last[list] = []string{"client-1/1#9", "client-2/2#8"}
		time.Sleep(2 * changing)
		full, _ := l.full()
		assert.True(t, full)
		assert.Empty(t, l.lacking(changing))

		l.last[list] = []string{"client-1/1#10"}
		time.Sleep(2 * changing)
		full, _ = l.full()
		assert.False(t, full)
		assert.Equal(t, []string{"client-1 service-1"}, l.lacking(changing))
		l.last[list] = []string{"client-1/1#10", "client-2/2#8", "client-3/7#1"}
		full, _ = l.full()
		assert.False(t, full, "a stranger is in the list")
	})
}

// A machine that stalls looks seldom: a list may have been full in between, and its
// next registration is on the way at each look.
func TestTraffic_TimeBetweenLooksIsNotThatOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := NewTraffic(Load{Clients: 1, Names: 1}, nil, nil, 1)
		l := traffic
		l.clients = map[string]*worker{"client-1": {client: silent{}}}
		publishes := func(tag string) { l.live[tag], l.names[tag] = tag+"#1", "service-1" }
		sees := func(values ...string) { l.last[[2]string{"client-1", "service-1"}] = values }
		publishes("client-1/1")
		sees("client-1/1#1")
		assert.Empty(t, traffic.Look())

		time.Sleep(2 * changing)
		publishes("client-2/2")
		assert.Empty(t, traffic.Look(), "published just now")
		time.Sleep(2 * changing)
		sees("client-1/1#1", "client-2/2#1")
		publishes("client-2/3")
		assert.Empty(t, traffic.Look(), "another one")
		time.Sleep(changing / 2)
		assert.Empty(t, traffic.Look())
		time.Sleep(changing)
		assert.Equal(t, []string{"client-1 service-1"}, traffic.Look(), "the same one, for more than a second")
		sees("client-1/1#1", "client-2/2#1", "client-2/3#1")
		assert.Empty(t, traffic.Look())

		sees("client-1/1#1", "client-2/2#1", "client-2/2#2", "client-2/3#1")
		assert.Empty(t, traffic.Look())
		time.Sleep(2 * changing)
		assert.Equal(t, []string{"client-1 service-1"}, traffic.Look(), "one of them twice")
	})
}

// silent is a client without a connection.
type silent struct{ testbed.Client }

func (silent) Connected() []conclave.NodeID { return nil }

func TestRefused_IsNotSilence(t *testing.T) {
	assert.True(t, refused(wire.Errorf(wire.CodeInternal, "a panic")))
	assert.False(t, refused(fmt.Errorf("%w (%w)", context.DeadlineExceeded, wire.Errorf(wire.CodeUnavailable, "draining"))))
	assert.False(t, refused(errors.New("the connection is closed")))
	assert.False(t, refused(nil))
}
