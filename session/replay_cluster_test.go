package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/session"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func digestsOf(pubs ...*wirev1.Publisher) (out []*wirev1.PublisherDigest) {
	for _, p := range pubs {
		out = append(out, wire.PublisherDigestOf(p))
	}
	return out
}

// answers collects the ids that a message and those after it answer, until the
// session has answered a ping.
func (r *raw) answers(m *wirev1.ClientMessage) (accepted, wanted, refused []string) {
	m.Ping = 1
	r.send(m)
	r.until(func(m *wirev1.ServerMessage) bool {
		for _, a := range m.GetAccepted() {
			accepted = append(accepted, a.GetId())
		}
		for _, a := range m.GetWanted() {
			wanted = append(wanted, a.GetId())
		}
		for _, x := range m.GetRefused() {
			refused = append(refused, x.GetId())
		}
		return m.GetPong() == 1
	})
	return accepted, wanted, refused
}

// A client that comes to another session names what it has published. The session
// registers what data has of that, under its own incarnation, and nothing that the
// client has not named; the rest is wanted, and not accepted before it is sent.
func TestDigests_OnlyWhatIsNamedAndFoundIsRegistered(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		reg := func(id, value string) *wirev1.Publisher {
			return &wirev1.Publisher{Id: id, DataInfoId: svc, Version: 1, Values: []string{value}}
		}
		first := c.raw("app", "session-1").hello("app")
		first.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{reg("a", "A"), reg("b", "B"), reg("unnamed", "U")}})
		sub := c.watch(c.client("reader", "session-2"), "svc")
		c.eventually("all are seen", sub.shows("A", "B", "U"))

		second := c.raw("app", "session-2").hello("app")
		defer second.end()
		bad := digestsOf(reg("bad", "X"))
		bad[0].Hash = bad[0].Hash[:3]
		accepted, wanted, refused := second.answers(&wirev1.ClientMessage{Digests: append(bad, digestsOf(reg("a", "A"), reg("b", "other"), reg("new", "N"))...)})
		assert.Equal(t, []string{"a"}, accepted)
		assert.ElementsMatch(t, []string{"b", "new"}, wanted)
		assert.Equal(t, []string{"bad"}, refused)
		list := c.list(c.sessions["session-2"].server.Address(), "/v1/publishers")
		require.Len(t, list, 1)
		assert.Equal(t, "a", list[0]["id"])

		kill(c, c.sessions["session-1"])
		first.end()
		accepted, wanted, _ = second.answers(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{reg("b", "B"), reg("new", "N")}, Digests: digestsOf(reg("a", "A"))})
		assert.ElementsMatch(t, []string{"b", "new", "a"}, accepted, "what the session has is found there")
		assert.Empty(t, wanted)
		for range 40 { // until the lost session's copies have gone
			second.answers(&wirev1.ClientMessage{})
			time.Sleep(time.Second)
		}
		c.eventually("its own are seen", sub.shows("A", "B", "N"))
	})
}

// Without the right to register nothing is looked up: the answer does not show
// what data has.
func TestDigests_WithoutTokenNothingIsLookedUp(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		p := &wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"A"}}
		owner := c.raw("owner", "session-1").hello("owner")
		defer owner.end()
		accepted, _, _ := owner.answers(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{p}})
		require.Len(t, accepted, 1)

		c.startSession("session-2", func(c *session.Config) { c.Token, c.PublicReads = "secret", true })
		c.settle()
		stranger := c.raw("stranger", "session-2").hello("stranger")
		defer stranger.end()
		accepted, wanted, _ := stranger.answers(&wirev1.ClientMessage{Digests: digestsOf(p)})
		assert.Empty(t, accepted)
		assert.Equal(t, []string{"a"}, wanted)
		_, _, refused := stranger.answers(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{p}})
		assert.Equal(t, []string{"a"}, refused)
	})
}

// A session is killed: the SDK's clients come to the other one, which asks for no
// value that data has. If all copies are lost with it, it asks for all of them. In
// both cases nothing is missing in the end.
func TestDigests_ReplayAfterASessionIsKilled(t *testing.T) {
	for _, copiesLost := range []bool{false, true} {
		t.Run(fmt.Sprint("copies lost ", copiesLost), func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, c *cluster) {
				const clients, each = 4, 50
				var pubs []*client.Publication
				var values []string
				var changed *client.Publication
				for i := range clients {
					x := c.client(fmt.Sprint("writer-", i), "session-1")
					for n := range each {
						values = append(values, fmt.Sprint(i, "/", n, strings.Repeat(".", 1000)))
						pubs = append(pubs, c.publish(x, "svc", values[len(values)-1]))
					}
				}
				sub := c.watch(c.client("reader", "session-2"), "svc")
				c.eventually("all are seen", sub.shows(values...))
				changed = pubs[7]
				for _, p := range pubs {
					require.NoError(t, p.Stored(c.ctx))
				}

				if copiesLost {
					kill(c, c.datas["data-1"])
					kill(c, c.datas["data-2"])
				}
				kill(c, c.sessions["session-1"])
				values[7] = "changed" + values[7]
				require.NoError(t, changed.Update([]string{values[7]}))
				if copiesLost {
					c.startData("data-1")
					c.startData("data-2")
				}
				for _, p := range pubs {
					require.NoError(t, p.Stored(c.ctx))
				}
				c.eventually("all are seen", sub.shows(values...))
				time.Sleep(time.Minute) // the lost session's copies have gone
				assert.True(t, sub.shows(values...)())
				neverBelow(t, sub, len(values))
				all, named, resent := int64(0), int64(0), int64(0)
				for _, v := range values {
					all += int64(len(v))
				}
				for _, x := range c.clients {
					n, r := x.Replayed()
					named, resent = named+n, resent+r
				}
				assert.InDelta(t, all, named, 1100, "all but, perhaps, what was changed")
				if copiesLost {
					assert.InDelta(t, named, resent, 1100)
				} else {
					assert.Zero(t, resent)
				}
			})
		})
	}
}

// The session's own registration has the version, but not the values that the
// client names: it is wanted, and what is then sent is answered as usual.
func TestDigests_OtherValuesOfItsOwnAreWanted(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		p := &wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"A"}}
		r := c.raw("app", "session-1").hello("app")
		defer r.end()
		r.answers(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{p}})
		_, wanted, _ := r.answers(&wirev1.ClientMessage{Digests: digestsOf(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"B"}})})
		assert.Equal(t, []string{"a"}, wanted)
		accepted, _, _ := r.answers(&wirev1.ClientMessage{Digests: digestsOf(p)})
		assert.Equal(t, []string{"a"}, accepted)
	})
}
