package recorded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
)

// A node follows the meta whose beats have arrived on its stream, until the stream
// ends for it.
func TestPlayer_NodesFollowTheMetaThatHoldsTheirStream(t *testing.T) {
	var records []journal.Record
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	message := func(at int, from, to string, conn int, kind journal.MessageKind, what string, fate journal.Fate) {
		records = append(records, journal.Record{At: ms(at), Message: &journal.Message{From: from, To: to, Conn: conn, What: what, Kind: kind, Fate: fate, Took: ms(2)}})
	}
	const beat, reset = "Join: term, leader, address, beat ...", "connection: reset"
	message(200, "meta-2", "data-1", 3, journal.Answer, "Join: ended: not_leader", journal.Arrived)
	message(210, "meta-1", "data-1", 4, journal.Answer, beat, journal.Arrived)
	message(210, "meta-1", "data-2", 5, journal.Answer, beat, journal.Lost)
	message(211, "meta-1", "session-1", 6, journal.Answer, beat, journal.Arrived)
	message(212, "meta-1", "meta-2", 7, journal.Answer, beat, journal.Arrived)
	message(1000, "meta-1", "data-1", 4, journal.Transport, reset, journal.Arrived)
	message(1000, "meta-1", "session-1", 6, journal.Transport, reset, journal.Lost)
	message(1000, "meta-1", "meta-2", 9, journal.Transport, reset, journal.Arrived)
	message(1010, "meta-2", "data-1", 8, journal.Answer, beat, journal.Arrived)
	message(1700, "session-1", "meta-1", 6, journal.Request, "Join: cancelled", journal.Lost)
	records = append(records, journal.Record{At: ms(2500), Entry: &check.Entry{At: ms(2500), Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Kill, Node: "data-1"}}}})
	records = append(records, journal.Record{At: ms(2600), Entry: &check.Entry{At: ms(2600), Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Start, Node: "data-1"}}}})
	message(3000, "client-1", "session-1", 10, journal.Request, "Connect", journal.Arrived)

	playThese(t, records, journal.Result{}, func(s shown) {
		at := func(ms string) map[string]string {
			s.act("seek", ms)
			out := map[string]string{}
			for name, n := range s.state().Nodes {
				if n.Meta != "" {
					out[name] = n.Meta
				}
			}
			return out
		}
		assert.Empty(t, at("211"), "nothing has arrived")
		all := map[string]string{"data-1": "meta-1", "session-1": "meta-1", "meta-2": "meta-1"}
		assert.Equal(t, all, at("500"))
		assert.Equal(t, map[string]string{"session-1": "meta-1", "meta-2": "meta-1"}, at("1005"), "the end of the session's connection was lost, that of meta-2 was of another one")
		assert.Equal(t, map[string]string{"data-1": "meta-2", "session-1": "meta-1", "meta-2": "meta-1"}, at("1600"))
		assert.Equal(t, map[string]string{"data-1": "meta-2", "meta-2": "meta-1"}, at("2400"), "the session has ended its stream")
		assert.Equal(t, map[string]string{"meta-2": "meta-1"}, at("2900"), "a process that was started again has none yet")
		assert.Equal(t, all, at("500"), "backwards too")
	})
}
