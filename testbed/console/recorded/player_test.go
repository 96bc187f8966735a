package recorded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
	"conclave/testbed/console/recorded"
)

var began = time.Unix(5000, 0).UTC()

// failover is a run in which the leader is killed and the next one wins.
func failover(violated bool) (records []journal.Record, result journal.Result) {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	entry := func(ms int, e check.Entry) {
		e.At = at(ms)
		records = append(records, journal.Record{At: e.At, Entry: &e})
	}
	node := func(name string) conclave.NodeID { return conclave.NodeID{Name: name, Incarnation: "1"} }
	message := func(ms int, m journal.Message) { records = append(records, journal.Record{At: at(ms), Message: &m}) }
	state := func(ms int, s testbed.Snapshot) {
		s.Table = slot.Table{Epoch: conclave.Epoch{Term: s.Term, Seq: 3}, Slots: []slot.Slot{{Leader: node("data-1"), Phase: slot.Stable, Followers: []conclave.NodeID{node("data-2")}}}}
		records = append(records, journal.Record{At: at(ms), State: &s})
	}
	led := func(ms int, name string, term uint64, until int) {
		entry(ms, check.Entry{Event: &trace.Claim{Node: node(name), Kind: trace.Led, Term: term, Until: began.Add(at(until))}})
	}
	led(-500, "meta-1", 1, 2500)
	state(-400, testbed.Snapshot{Leader: "meta-1", Term: 1, Up: []string{"data-1", "data-2", "db", "meta-1", "meta-2", "session-1"}, Ready: []string{"data-1", "data-2", "db", "meta-1", "meta-2", "session-1"}})
	entry(-300, check.Entry{Op: &check.Op{Client: "client-1", Kind: check.OpConnected, Values: []string{"session-1"}}})
	message(100, journal.Message{From: "meta-1", To: "db", What: "SQL renew", Fate: journal.Arrived, Took: at(1)})
	message(101, journal.Message{From: "db", To: "meta-1", What: "SQL renew: 1 changed", Kind: journal.Answer, Fate: journal.Arrived, Took: at(1)})
	message(900, journal.Message{From: "client-1", To: "session-1", What: "Connect: publishers", Fate: journal.Arrived, Took: at(200)})
	entry(1000, check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Kill, Node: "meta-1"}}})
	message(1001, journal.Message{From: "meta-2", To: "meta-1", What: "Witness", Fate: journal.Lost, Took: at(1)})
	message(1002, journal.Message{From: "meta-2", To: "db", What: "HTTP/2: ping", Kind: journal.Transport, Fate: journal.Arrived, Took: at(1)})
	message(1003, journal.Message{From: "meta-2", To: "db", What: "SQL win witness", Fate: journal.Arrived, Took: at(1)})
	led(1006, "meta-2", 2, 4000)
	state(1100, testbed.Snapshot{Leader: "meta-2", Term: 2, Up: []string{"data-1", "data-2", "db", "meta-2", "session-1"}, Ready: []string{"data-1", "db", "meta-2", "session-1"}})
	entry(1500, check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Cut, Node: "data-1", Peer: "data-2"}}})
	entry(1600, check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Pause, Node: "session-1"}}})
	entry(2000, check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Mend, Node: "data-1", Peer: "data-2"}, Undo: true}})
	entry(3000, check.Entry{Op: &check.Op{Kind: check.OpHealed}})
	result.Verdicts = []check.Verdict{{ID: "I1", Says: "one leader", Checks: 7}}
	if violated {
		result.Verdicts[0].Violations = []check.Violation{{At: at(1600), What: "two leaders", Evidence: []string{"this shows it"}}}
	}
	return records, result
}

// player returns the player of a run.
func player(t *testing.T, records []journal.Record, result journal.Result) *recorded.Player {
	var file bytes.Buffer
	header := journal.Header{Name: "failover", Began: began, HasEvents: true, Cluster: testbed.Size{Metas: 2, Sessions: 1, Datas: 2, Lease: 3 * time.Second}}
	require.NoError(t, (&journal.Recording{Header: header, Records: records, Result: result}).Write(&file))
	r, err := journal.Open(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	return recorded.New(r)
}

// shown is a player with its hub, in a bubble.
type shown struct {
	t   *testing.T
	p   *recorded.Player
	hub *console.Hub
}

// play runs a player while do is running.
func play(t *testing.T, violated bool, do func(s shown)) {
	records, result := failover(violated)
	playThese(t, records, result, do)
}

func playThese(t *testing.T, records []journal.Record, result journal.Result, do func(s shown)) {
	synctest.Test(t, func(t *testing.T) {
		s := shown{t, player(t, records, result), console.NewHub()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.p.Run(ctx, s.hub) }()
		do(s)
		cancel()
		require.NoError(t, <-done)
	})
}

func (s shown) act(do, value string) {
	s.t.Helper()
	require.NoError(s.t, s.p.Act(s.t.Context(), console.Request{Do: do, Value: value}), "%s %s", do, value)
}

// answer is a recorder with a deadline.
type answer struct{ *httptest.ResponseRecorder }

func (answer) SetWriteDeadline(time.Time) error { return nil }

// state returns what a viewer that comes now is shown.
func (s shown) state() (out struct {
	console.State
	Events []console.Event `json:"events"`
}) {
	s.t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithCancel(s.t.Context())
	w := answer{httptest.NewRecorder()}
	cancel() // the snapshot, and then the end
	console.NewServer(console.Config{Hub: s.hub}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/stream", nil))
	_, data, ok := strings.Cut(w.Body.String(), "event: snapshot\ndata: ")
	require.True(s.t, ok, w.Body)
	line, _, _ := strings.Cut(data, "\n")
	require.NoError(s.t, json.Unmarshal([]byte(line), &out))
	return out
}

func TestPlayer_ShowsWhatLedToIt(t *testing.T) {
	play(t, true, func(s shown) {
		ask := func(of string) (out []string) {
			links, err := s.p.Why(t.Context(), console.Request{Value: of})
			require.NoError(t, err)
			for _, l := range links {
				out = append(out, l.What)
			}
			return out
		}
		_, err := s.p.Why(t.Context(), console.Request{Value: "999"})
		require.Error(t, err)
		assert.Equal(t, []string{"I1: two leaders", "done to the cluster: pause session-1"}, ask(""), "it stands at a violation, which no entry shows")
		s.act("seek", "1300")
		assert.Contains(t, ask("")[0], "meta-2 becomes the leader of term 2")
		messages := s.state().Messages
		won := messages[len(messages)-1]
		s.act("between", "client-1,session-1")
		assert.Equal(t, []string{"meta-2 asks db: SQL win witness; nothing reached meta-2 at that instant"}, ask(fmt.Sprint(won.ID)))
		now := s.state()
		assert.True(t, now.Why)
		assert.Equal(t, []string{"client-1", "session-1", "meta-2", "db"}, now.Playback.Between)
		chained := slices.DeleteFunc(now.Messages, func(m console.Message) bool { return !m.Why })
		require.Len(t, chained, 1)
		assert.Equal(t, "SQL win witness", chained[0].What)
	})
}

func TestPlayer_ShowsWhatLedToAFailureWithoutAViolation(t *testing.T) {
	records, result := failover(false)
	result.Failures, result.FailedAt = []string{"line 4: expect full within 1s: 3 are missing"}, 2500*time.Millisecond
	p := player(t, records, result)
	require.NoError(t, p.Act(t.Context(), console.Request{Do: "seek", Value: "3000"}))
	links, err := p.Why(t.Context(), console.Request{})
	require.NoError(t, err)
	require.Len(t, links, 2)
	assert.Equal(t, "    2.500s failover: line 4: expect full within 1s: 3 are missing", links[0].String())
	assert.Equal(t, "done to the cluster: pause session-1", links[1].What, "which lasts")
}

func TestPlayer_StepsAndSeeks(t *testing.T) {
	play(t, false, func(s shown) {
		now := s.state()
		assert.Equal(t, "recording", now.Mode)
		assert.True(t, now.Playback.Paused)
		assert.Zero(t, now.Playback.AtMs, "it begins where the scenario begins")
		assert.Equal(t, "meta-1", now.Leader)
		assert.Equal(t, "data-1", now.Slots["0"].Leader)
		assert.Equal(t, []string{"meta-1", "meta-2", "db"}, now.Playback.Between)
		assert.Equal(t, map[string]console.Client{"client-1 session-1": {Name: "client-1", Session: "session-1"}}, now.Clients)
		assert.Equal(t, int64(2500), now.Nodes["meta-1"].Until)
		assert.Len(t, now.Marks, 6)

		s.act("next", "message")
		s.act("next", "message")
		now = s.state()
		assert.InDelta(t, 101, now.Playback.AtMs, 0)
		require.Len(t, now.Messages, 2)
		assert.Equal(t, "arrived", now.Messages[0].Fate)
		assert.Equal(t, "on its way", now.Messages[1].Fate)
		assert.InDelta(t, -1, now.Messages[1].GotMs, 0)

		s.act("next", "fault")
		now = s.state()
		assert.InDelta(t, 1000, now.Playback.AtMs, 0)
		assert.Equal(t, "killed", now.Nodes["meta-1"].State, "at once, although the snapshot is older")
		assert.Empty(t, now.Leader)
		assert.Equal(t, "FAULT kill meta-1", now.Events[len(now.Events)-1].Text)

		s.act("next", "election")
		now = s.state()
		assert.Equal(t, "meta-2", now.Leader)
		assert.Equal(t, uint64(2), now.Term)
		assert.Equal(t, console.Term{Term: 2, Owner: "meta-2", Previous: "meta-1", Cause: "killed", LeaderlessMs: 6, At: 1006}, now.Terms["2"])
		assert.Equal(t, console.Span{Node: "meta-1", Term: 1, From: -500, To: 1000}, now.Believed["meta-1 1"], "a killed leader believes nothing")
		assert.Equal(t, "lost", now.Messages[2].Fate)
		assert.Equal(t, "SQL win witness", now.Messages[3].What, "the ping is one of the transport")
		s.act("transport", "on")
		assert.Equal(t, "HTTP/2: ping", s.state().Messages[3].What)

		s.act("seek", "1700")
		now = s.state()
		assert.Equal(t, console.Link{A: "data-1", B: "data-2", What: "cut"}, now.Links["data-1 data-2"])
		assert.Equal(t, "suspended", now.Nodes["session-1"].State)
		assert.Equal(t, "starting", now.Nodes["data-2"].State)
		s.act("previous", "election")
		now = s.state()
		assert.InDelta(t, 1006, now.Playback.AtMs, 0)
		assert.Empty(t, now.Links)
		for _, e := range now.Events {
			assert.LessOrEqual(t, e.At, int64(1006), "going back takes events away")
		}
		s.act("between", "session-1,client-1")
		now = s.state()
		assert.Equal(t, []string{"client-1", "session-1"}, now.Playback.Between)
		require.Len(t, now.Messages, 1)
		assert.Equal(t, "Connect: publishers", now.Messages[0].What)
	})
}

// Of several records of one instant the position may be behind any: an address has it.
func TestPlayer_SeeksARecordOfAnInstant(t *testing.T) {
	records, result := failover(false)
	records = slices.Insert(records, 4, records[4], records[4]) // three at 101 ms
	playThese(t, records, result, func(s shown) {
		for value, want := range map[string]int{"101": 7, "101/": 7, "101/5": 5, "101/6": 6, "101/7": 7, "101/2": 4, "101/40": 7, "101/x": 7, "101.5/6": 7} {
			s.act("seek", value)
			assert.Equal(t, want, s.state().Playback.Record, value)
		}
		s.act("seek", "101.0000014")
		assert.InDelta(t, 101.000001, s.state().Playback.AtMs, 1e-9, "nanoseconds")
	})
}

func TestPlayer_PlaysAtItsSpeed(t *testing.T) {
	play(t, false, func(s shown) {
		s.act("play", "")
		time.Sleep(time.Second)
		assert.InDelta(t, 1000, s.state().Playback.AtMs, 60)
		s.act("speed", "0.1")
		time.Sleep(time.Second)
		assert.InDelta(t, 1100, s.state().Playback.AtMs, 60)
		s.act("pause", "")
		before := s.state().Playback.AtMs
		time.Sleep(time.Second)
		assert.InDelta(t, before, s.state().Playback.AtMs, 0)
		s.act("speed", "20")
		s.act("play", "")
		time.Sleep(time.Second)
		end := s.state()
		assert.InDelta(t, 3000, end.Playback.AtMs, 0)
		assert.True(t, end.Playback.Paused)
		assert.Equal(t, "passed", end.Play.State)
		assert.ErrorContains(t, s.p.Act(t.Context(), console.Request{Do: "play"}), "has ended")
	})
}

func TestPlayer_OpensAtAViolationAndStopsThere(t *testing.T) {
	play(t, true, func(s shown) {
		now := s.state()
		assert.InDelta(t, 1600, now.Playback.AtMs, 0)
		require.NotNil(t, now.Broken)
		assert.Equal(t, "I1", now.Broken.ID)
		assert.Contains(t, strings.Join(now.Broken.Before, "\n"), "meta-2@1 led term 2")
		assert.Equal(t, 1, now.Promises["I1"].Broken)
		s.act("seek", "500")
		now = s.state()
		assert.Nil(t, now.Broken, "before it nothing is broken")
		assert.Zero(t, now.Promises["I1"].Broken)
		s.act("speed", "1000")
		s.act("play", "")
		time.Sleep(time.Second)
		now = s.state()
		assert.InDelta(t, 1600, now.Playback.AtMs, 0, "it stops, however fast it is played")
		assert.True(t, now.Playback.Paused)
		s.act("previous", "fault")
		s.act("next", "violation")
		assert.NotNil(t, s.state().Broken)
	})
}

func TestAct_RefusesWhatIsNoControl(t *testing.T) {
	records, result := failover(false)
	p := player(t, records, result)
	for _, c := range []struct{ do, value, want string }{
		{"kill", "", "want play, pause"},
		{"speed", "0", "speed"}, {"speed", "NaN", "speed"}, {"speed", "fast", "speed"},
		{"seek", "now", "position"}, {"seek", "NaN", "position"}, {"seek", "1e300", "position"},
		{"next", "moon", "want message, event"}, {"next", "violation", "there is no further violation"}, {"previous", "message", "there is no earlier message"},
		{"between", "db", "want two or more"}, {"between", "db,moon", "want two or more"},
	} {
		assert.ErrorContains(t, p.Act(t.Context(), console.Request{Do: c.do, Value: c.value}), c.want, fmt.Sprint(c))
	}
	assert.Equal(t, console.Everyone, p.Acts())
}
