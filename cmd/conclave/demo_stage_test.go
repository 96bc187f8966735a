package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// asked is a demo with metas that give prepared answers.
func asked(t *testing.T, metas ...string) *demo {
	c := newHTTPClient()
	t.Cleanup(c.CloseIdleConnections)
	d := &demo{app: &app{http: c, token: "secret"}}
	d.admin = d.adminAt(metas)
	return d
}

func leaderz(leads bool, term uint64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !leads {
			serve.WriteError(w, wire.NotLeader("", ""))
			return
		}
		serve.WriteJSON(w, http.StatusOK, map[string]any{"leader": "meta-2", "term": term})
	}
}

func TestAwaitTerm_AsksEachMetaItself(t *testing.T) {
	next := someLeader
	next.Term = 8
	old := fakeMeta(t, map[string]any{"GET /leaderz": leaderz(true, 7), "GET /v1/leader": someLeader})
	follower := fakeMeta(t, map[string]any{"GET /leaderz": leaderz(false, 0), "GET /v1/leader": next})
	silent := fakeMeta(t, map[string]any{"GET /leaderz": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
	leader := fakeMeta(t, map[string]any{"GET /leaderz": leaderz(true, 8), "GET /v1/leader": next})
	got, err := asked(t, old, follower, silent, leader).awaitTerm(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, next, got)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = asked(t, old, follower).awaitTerm(ctx, 7)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "no meta leads a term above 7")
}

func TestAwaitElection_WaitsForTheHistory(t *testing.T) {
	var calls atomic.Int32
	meta := fakeMeta(t, map[string]any{"GET /v1/elections": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		list := []metaclient.Election{{Term: 10, Owner: "meta-1"}}
		if calls.Add(1) > 3 { // it was written a beat later
			list = append([]metaclient.Election{{Term: 11, Owner: "meta-2", LeaderlessMs: 33}}, list...)
		}
		serve.WriteJSON(w, http.StatusOK, list)
	})})
	row, err := asked(t, meta).awaitElection(t.Context(), 11)
	require.NoError(t, err)
	assert.Equal(t, int64(33), row.LeaderlessMs)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = asked(t, meta).awaitElection(ctx, 12)
	assert.ErrorContains(t, err, "the history lacks term 12")
}

func TestCommandTo_IsNotForwarded(t *testing.T) {
	var seen http.Header
	refusing := fakeMeta(t, map[string]any{"PUT /v1/switches/protection-floor": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		serve.WriteError(w, wire.NotLeader("", ""))
	})})
	o := &outages{demo: asked(t, refusing)}
	assert.Equal(t, "no_leader", o.commandTo(t.Context(), refusing))
	assert.NotEmpty(t, seen.Get("Conclave-Proxied"), "a meta would hand it on")
	assert.Equal(t, "Bearer secret", seen.Get("Authorization"))

	obeying := fakeMeta(t, map[string]any{"PUT /v1/switches/protection-floor": map[string]string{"value": "1"}})
	assert.Contains(t, o.commandTo(t.Context(), obeying), "200 OK")
}

// The time that counts is when the query was sent, not when its answer arrived
// on a busy machine.
func TestLastLed_IsTheLastQueryAnsweredYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []struct {
			after time.Duration
			leads bool
			err   error
		}{{time.Second, true, nil}, {9 * time.Second, true, nil}, {time.Second, false, errors.New("no answer")}, {time.Second, true, errors.New("cut short")}, {time.Second, false, nil}}
		led, stopped, err := lastLed(t.Context(), time.Now(), func(context.Context) (bool, error) {
			a := answers[0]
			answers = answers[1:]
			time.Sleep(a.after)
			return a.leads, a.err
		})
		require.NoError(t, err)
		assert.Empty(t, answers)
		assert.Less(t, led, 2*time.Second)
		assert.GreaterOrEqual(t, led, time.Second)
		assert.GreaterOrEqual(t, stopped, 13*time.Second)

		_, _, err = lastLed(t.Context(), time.Now(), func(context.Context) (bool, error) { return true, nil })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestVerdict_FailsOnViolatedClaim(t *testing.T) {
	var c claims
	c.judge("a", true, "")
	c.judge("b", true, "")
	c.judge("a", false, "%d ms", 7)
	require.Len(t, c.all, 2)
	assert.Equal(t, 2, c.all[0].Checks)
	assert.Equal(t, 1, c.all[0].Broken)
	assert.Equal(t, 1, c.all[1].Checks)
	assert.Equal(t, []string{"a: 7 ms"}, c.broken)
}

func TestSample_Quantiles(t *testing.T) {
	var s sample
	assert.Zero(t, s.at(0.5))
	for i := range 100 {
		s = append(s, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.9: 90, 0.99: 99, 1: 100} {
		assert.Equal(t, want, s.at(q), "%v", q)
	}
	assert.Equal(t, 3.0, sample{3}.at(0.5))
	assert.Equal(t, "min 1, p50 1, p90 2, p99 2, max 2 ms (n = 2)", sample{2, 1}.String())
}

func TestDemo_RefusesInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid --on "cloud" (want local or compose)`:       {"--on", "cloud"},
		"--kills is -1: want 0 or more":                      {"--kills", "-1"},
		`invalid --takeover "force" (want witness or lease)`: {"--on", "compose", "--takeover", "force"},
		`--project: project name "My cluster"`:               {"--on", "compose", "--project", "My cluster"},
	} {
		r := tool(t, append([]string{"demo"}, args...)...)
		assert.Equal(t, exitUsage, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
}

func TestDemo_ReportsMissingDocker(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := tool(t, "demo", "--on", "compose")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "docker compose cannot be used here")
}

func TestAddress_FindsNodeByName(t *testing.T) {
	s := &composeStage{nodes: composeNodes}
	at, err := address(s, "data", "data-3")
	require.NoError(t, err)
	assert.Equal(t, "data-3:9622", at)
	_, err = address(s, "data", "data-4")
	assert.ErrorContains(t, err, `is "data-4"`)
	_, err = address(s, "meta", "session-1")
	assert.Error(t, err)
}
