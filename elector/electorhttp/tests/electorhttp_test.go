package electorhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorhttp"
	_ "conclave/internal/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lone is a strategy of which each round wins or renews, unless it is away.
type lone struct{ away atomic.Bool }

func (l *lone) Round(_ context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	switch {
	case l.away.Load():
		return elector.Term{}, errors.New("no answer")
	case me.Observer:
		return elector.Term{Number: me.Highest}, nil
	case me.Holding != 0:
		return elector.Term{Number: me.Holding, Leader: me.ID, Lease: me.Lease, Beat: last.Beat + 1}, nil
	}
	return elector.Term{Number: me.Highest + 1, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: elector.CauseFirst}, nil
}

func (l *lone) Resign(context.Context, elector.Term) error { return nil }

// run starts a lone node; stop ends it.
func run(t *testing.T, store *lone) (e *elector.Elector, stop func()) {
	e, err := elector.New(elector.Config{
		ID: conclave.NodeID{Name: "worker-1", Incarnation: "1"}, Address: "10.0.0.1:80", Strategy: store,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() { cancel(); assert.NoError(t, <-ended) }
}

// get asks a handler.
func get(h http.Handler, path string) (code int, kind, text string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, w.Header().Get("Content-Type"), string(body)
}

func TestHandler_SaysWhetherItLivesAndLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lone{}
		e, stop := run(t, store)
		h := electorhttp.Handler(e)
		synctest.Wait()
		code, _, text := get(h, "/leaderz")
		assert.Equal(t, 200, code)
		assert.Equal(t, "leading, term 1 of worker-1@1 at 10.0.0.1:80 (first)\n", text)
		code, _, text = get(h, "/healthz")
		assert.Equal(t, 200, code)
		assert.Equal(t, "alive\n", text)

		store.away.Store(true)
		time.Sleep(10 * time.Second)
		code, _, text = get(h, "/leaderz")
		assert.Equal(t, 503, code)
		assert.Contains(t, text, "no answer")
		code, _, _ = get(h, "/healthz")
		assert.Equal(t, 200, code, "a restart would not help")
		for _, path := range []string{"/", "/leaderz/x"} {
			code, _, _ = get(h, path)
			assert.Equal(t, 404, code)
		}
		stop()
		code, _, text = get(h, "/healthz")
		assert.Equal(t, 503, code)
		assert.Contains(t, text, "ended")
	})
}

// Prometheus' own parser reads the figures, and OpenMetrics' rules hold: each family
// once, its samples together, counters in _total, the unit in the name, and the end.
func TestMetrics_AreOpenMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lone{}
		e, stop := run(t, store)
		defer stop()
		time.Sleep(10 * time.Second)
		code, kind, text := get(electorhttp.Handler(e), "/metrics")
		assert.Equal(t, 200, code)
		assert.Contains(t, kind, "application/openmetrics-text; version=1.0.0")
		require.True(t, strings.HasSuffix(text, "\n# EOF\n"))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		require.NoError(t, err)
		value := func(name string) float64 {
			f := families[name]
			require.NotNil(t, f, name)
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetUntyped().GetValue()
		}
		assert.Equal(t, 1.0, value("elector_leading"))
		assert.Equal(t, 1.0, value("elector_term"))
		assert.InDelta(t, 2.9, value("elector_lease_remaining_seconds"), 1)
		assert.Equal(t, float64(e.Stats().Rounds), value("elector_rounds_total"))
		states := map[string]float64{}
		for _, m := range families["elector_state"].GetMetric() {
			states[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
		assert.Len(t, states, 6)
		assert.Equal(t, 1.0, states["leading"])
		assert.Zero(t, states["following"])

		family, seen := "", map[string]bool{}
		for line := range strings.Lines(text) {
			if name, isType := strings.CutPrefix(line, "# TYPE "); isType {
				family, _, _ = strings.Cut(name, " ")
				assert.False(t, seen[family], "%s twice", family)
				seen[family] = true
			} else if !strings.HasPrefix(line, "# EOF") {
				assert.Contains(t, line, family, "samples stand with their family")
			}
		}
	})
}

func TestWriteMetrics_NamesEachElection(t *testing.T) {
	one, err := elector.New(elector.Config{ID: conclave.NodeID{Name: "a"}, Strategy: &lone{}})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, electorhttp.WriteMetrics(&text, map[string]*elector.Elector{"nightly": one, "a \"quoted\" \\ name\n": one}))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&text)
	require.NoError(t, err)
	var names []string
	for _, m := range families["elector_leading"].GetMetric() {
		names = append(names, m.GetLabel()[0].GetValue())
	}
	assert.Equal(t, []string{"a \"quoted\" \\ name\n", "nightly"}, names)
}

// The leader confirms its own term only, and to who knows the token; what is not led is
// promised away. A process that is not there is known not to lead.
func TestConfirmation(t *testing.T) {
	e, stop := run(t, &lone{})
	defer stop()
	confirm := electorhttp.Confirmation{Election: "nightly", Path: "/election/confirm", Token: "shared"}
	mux := http.NewServeMux()
	mux.Handle(confirm.Path, confirm.Handler(e))
	mux.Handle("/open", electorhttp.Confirmation{}.Handler(e))
	mux.HandleFunc("/login", func(http.ResponseWriter, *http.Request) {}) // another server's 200
	server := httptest.NewServer(mux)
	defer server.Close()
	require.Eventually(t, func() bool { _, leading := e.Leading(); return leading }, 10*time.Second, time.Millisecond)
	type answer struct{ alive, known bool }
	ask := func(c electorhttp.Confirmation, address string, term uint64) answer {
		alive, known := c.Ask(t.Context(), address, term, "cv:1")
		return answer{alive, known}
	}

	address := strings.TrimPrefix(server.URL, "http://")
	for _, stranger := range []electorhttp.Confirmation{
		{Election: "nightly", Path: confirm.Path, Token: "other"}, {Election: "nightly", Path: confirm.Path}, {Path: "/open"},
		{Election: "nightly", Path: "/none", Token: "shared"}, {Election: "nightly", Path: "/login", Token: "shared"}, {Election: "weekly", Path: confirm.Path, Token: "shared"},
	} {
		var log bytes.Buffer
		stranger.Logger = slog.New(slog.NewTextHandler(&log, nil))
		assert.Equal(t, answer{}, ask(stranger, address, 2), "%+v", stranger)
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "what answers is misconfigured: %s", &log)
	}
	for _, bad := range []struct {
		method, query string
		code          int
	}{{http.MethodGet, "?term=1", 405}, {http.MethodPost, "", 400}, {http.MethodPost, "?term=-1", 400}, {http.MethodPost, "?term=0&election=nightly", 400}} {
		r := httptest.NewRequest(bad.method, confirm.Path+bad.query, nil)
		r.Header.Set("Authorization", "Bearer shared")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		assert.Equal(t, bad.code, w.Code, "%+v", bad)
	}
	var log bytes.Buffer
	confirm.Logger = slog.New(slog.NewTextHandler(&log, nil))
	assert.Equal(t, answer{true, true}, ask(confirm, address, 1))
	assert.Equal(t, answer{true, true}, ask(confirm, server.URL, 1), "an address can be a URL")
	_, leads := e.Leading()
	assert.True(t, leads, "the stranger's questions changed nothing")

	assert.Equal(t, answer{false, true}, ask(confirm, address, 2))
	term, leading := e.Leading()
	assert.False(t, leading && term.Number <= 2, "it has promised never to lead term 2 or below")
	server.Close()
	assert.Equal(t, answer{false, true}, ask(confirm, address, 1), "the dial is refused")
	assert.Equal(t, answer{}, ask(confirm, "no address", 1))
	assert.Empty(t, log.String(), "a leader that is gone is no misconfiguration")
}
