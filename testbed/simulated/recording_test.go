package simulated_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/check"
	"conclave/testbed/console/journal"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
	"conclave/testbed/simulated/wiretap"
)

// recorded plays a scenario and reads its recording.
func recorded(t *testing.T, s scenario.Scenario) (*scenario.Result, *journal.Recording, int) {
	var recording simulated.Recording
	result, err := simulated.Play(t, s, simulated.Options{Recording: &recording})
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, recording.Write(&file, result))
	r, err := journal.Open(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	return result, r, file.Len()
}

func TestRecording_HasTheWholeRun(t *testing.T) {
	if raceDetector {
		t.Skip("takes ten times as long under the race detector")
	}
	s, err := scenario.Parse("failover", "clients 2 names 2 every 50ms\nat 1s kill leader\nat 1s expect new leader within 1s\nat 2s cut data-1 from data-2 for 500ms\nuntil 4s")
	require.NoError(t, err)
	s.Cluster.Seed = 1
	result, r, size := recorded(t, s)

	var entries, messages, states, lost int
	what := map[string]int{}
	var lines []string
	leaders := map[string]bool{}
	for _, x := range r.Records {
		switch {
		case x.Entry != nil:
			entries++
			lines = append(lines, x.Entry.String())
		case x.Message != nil:
			m := x.Message
			messages++
			what[m.What]++
			if m.Fate == journal.Lost {
				lost++
			}
			if _, end := r.Span(); x.At == end {
				assert.NotContains(t, m.What, "connection", "how the cluster is closed is no part of it")
			}
			if m.Kind != journal.Transport && m.Fate == journal.Arrived && x.At > 0 && x.At < 500*time.Millisecond {
				assert.Less(t, m.Took, time.Millisecond, "without a fault a link takes up to 250 microseconds: %+v", m)
			}
		case x.State != nil:
			states++
			leaders[x.State.Leader] = true
		}
	}
	answers, wrong := 0, 0
	for n, x := range r.Records {
		if x.Message == nil || x.Message.Kind != journal.Answer || x.At > 0 { // many calls on one connection are made when the nodes start
			continue
		}
		request := n - 1
		for ; request >= 0; request-- {
			q := r.Records[request]
			if m := q.Message; m != nil && m.Kind == journal.Request && m.Conn == x.Message.Conn && m.Stream == x.Message.Stream && q.At+m.Took <= x.At {
				break // the last one of the call that had arrived
			}
		}
		if asked := journal.Why(r.Records, r.Began, n)[0].Asked; asked >= 0 { // otherwise a decision, or a statement, led to it
			if answers++; asked != request {
				wrong++
			}
		}
	}
	assert.Greater(t, answers, 100)
	assert.Zero(t, wrong, "requests of %d answers", answers)
	var want []string
	for _, e := range result.History.Entries {
		want = append(want, e.String())
	}
	assert.Equal(t, want, lines, "the history is in the recording")
	assert.NotEmpty(t, states)
	assert.GreaterOrEqual(t, len(leaders), 2, "the states show both leaders")
	assert.Positive(t, lost, "what was sent to the killed leader")
	for _, w := range []string{"SQL renew", "SQL renew: 1 changed", "SQL look", "SQL seal: 6 changed", "Connect: publishers", "Connect: pushes", "Writes: results", "Fetch", "HTTP/2: ping", "connection: closed"} {
		assert.Positive(t, what[w], "no message %q in %v", w, what)
	}
	for w := range what {
		assert.False(t, strings.HasPrefix(w, ":"), "a message without a name: %q", w)
	}
	assert.Less(t, size, 30*len(r.Records), "bytes for each of %d records", len(r.Records))

	assert.Len(t, r.Result.Verdicts, len(result.Verdicts))
	again, err := scenario.Parse(r.Name, r.Text)
	require.NoError(t, err, "the scenario can be played again")
	assert.Len(t, again.Lines, len(s.Lines))
}

// TestRecording_OfTheNewestReadsEveryByte compares it with a tap that never drops anything: a
// connection of which bytes are missed cannot be read any more.
func TestRecording_OfTheNewestReadsEveryByte(t *testing.T) {
	s, err := scenario.Parse("newest", "clients 2 names 2 every 50ms\nuntil 3s")
	require.NoError(t, err)
	s.Cluster.Seed = 1
	const kept = 100
	recording, tap := &simulated.Recording{Keep: kept}, wiretap.New()
	type part struct {
		segment      uint64
		conn         int
		stream       uint32
		answer, call string
	}
	all, differed := map[part]bool{}, 0
	r, err := simulated.Play(t, s, simulated.Options{Recording: recording, Tap: func(x simnet.Sent) {
		if total, _ := recording.Newest(); differed == 0 && total != len(all) {
			differed = total
		}
		messages := tap.Sent(x.From, x.To, x.Data)
		if x.What != "" {
			messages = append(messages, tap.Ended(x.From, x.To, x.What))
		}
		for _, m := range messages {
			all[part{x.Segment, m.Conn, m.Stream, fmt.Sprint(m.Kind), m.Call}] = true
		}
	}})
	require.NoError(t, err)
	total, _ := recording.Newest()
	assert.Greater(t, total, 20*kept)
	assert.Equal(t, total, differed, "they differ when the cluster is closed, and not before")
	sent := 0
	for _, x := range recording.Records(r.History) {
		if x.Message != nil {
			sent++
		}
	}
	assert.GreaterOrEqual(t, sent, kept)
	assert.LessOrEqual(t, sent, 2*kept)
}

// The checkers find in a recording what they found in the run.
func TestRecording_CanBeChecked(t *testing.T) {
	if raceDetector {
		t.Skip("takes ten times as long under the race detector")
	}
	result, r, _ := recorded(t, scenario.Storm(1, nil))
	h := &check.History{Scenario: r.Name, Cluster: r.Cluster, HasEvents: r.HasEvents, Began: r.Began}
	for _, x := range r.Records {
		if x.Entry != nil {
			h.Entries = append(h.Entries, *x.Entry)
		}
	}
	again := check.Run(h)
	require.Len(t, again, len(result.Verdicts))
	for i, v := range result.Verdicts {
		assert.Equal(t, v.ID, again[i].ID)
		assert.Equal(t, v.Checks, again[i].Checks, v.ID)
		assert.Equal(t, len(v.Violations), len(again[i].Violations), v.ID)
	}
}

// What a recording costs is compared with the storm itself, in the same process:
// the memory that both allocate, which does not depend on the machine.
func TestRecording_CostsLittle(t *testing.T) {
	if raceDetector {
		t.Skip("takes ten times as long under the race detector")
	}
	allocated := func(do func()) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	s := scenario.Storm(1, nil)
	_, err := simulated.Play(t, s, simulated.Options{}) // so that what is initialized once in a process is initialized
	require.NoError(t, err)
	plain := allocated(func() {
		_, err := simulated.Play(t, s, simulated.Options{})
		require.NoError(t, err)
	})
	size := 0
	with := allocated(func() {
		recording, file := simulated.Recording{}, bytes.Buffer{}
		r, err := simulated.Play(t, s, simulated.Options{Recording: &recording})
		require.NoError(t, err)
		require.NoError(t, recording.Write(&file, r))
		size = file.Len()
	})
	t.Logf("recording a storm allocates %.0f %% more; the file has %d bytes", 100*(with/plain-1), size)
	assert.Less(t, with, plain*4/3)
	assert.Less(t, size, 20<<20)
}
