package electorhttp

import (
	"fmt"
	"net/http"

	"conclave/elector"
)

// Handler serves an election by GET and HEAD:
//
//	/healthz   200 if elector.Elector.Live returns nil, 503 with its error otherwise
//	/leaderz   200 if this node leads and may act, 503 otherwise, with elector.Status as text
//	/metrics   what WriteMetrics writes
//
// Each answer is computed from memory. Reading them needs no right, and they name the
// leader, its address and errors of the database: serve them where operators are.
func Handler(e *elector.Elector) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Live(); err != nil {
			answer(w, http.StatusServiceUnavailable, err)
			return
		}
		answer(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /leaderz", func(w http.ResponseWriter, _ *http.Request) {
		code := http.StatusServiceUnavailable
		if _, leading := e.Leading(); leading {
			code = http.StatusOK
		}
		answer(w, code, e.Status())
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		_ = WriteMetrics(w, map[string]*elector.Elector{"": e}) // fails if the reader has gone
	})
	return mux
}

// answer writes a line of text that no cache keeps.
func answer(w http.ResponseWriter, code int, text any) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
