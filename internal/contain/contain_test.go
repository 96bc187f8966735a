package contain_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"conclave/internal/contain"
)

func fails() { panic("a defect") }

// A panic is logged with its stack and counted, and what it belonged to is ended.
func TestRun_LogsAndEnds(t *testing.T) {
	var text bytes.Buffer
	log, before := hclog.New(&hclog.LoggerOptions{Output: &text}), contain.Count()
	var ended error
	end := func(err error) { ended = err }
	contain.Run(log, end, func() {})
	assert.NoError(t, ended)
	assert.Equal(t, before, contain.Count())
	contain.Run(log, end, fails)
	assert.EqualError(t, ended, "a handler panicked: a defect")
	assert.Equal(t, before+1, contain.Count())
	assert.Contains(t, text.String(), "a defect")
	assert.Contains(t, text.String(), "contain_test.fails")
}

func TestHandler_LogsAndEndsTheRequest(t *testing.T) {
	var text bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &text})
	before := contain.Count()
	h := contain.Handler(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			fails()
		case "/aborts":
			panic(http.ErrAbortHandler)
		case "/reports":
			http.Error(w, contain.Reported(r.Context(), "recovered").Error(), http.StatusInternalServerError)
		}
	}))
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { get("/fails") }, "net/http ends the request")
	assert.Contains(t, text.String(), "contain_test.fails")
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { get("/aborts") })
	assert.Equal(t, before+1, contain.Count(), "to abort a request is no defect")
	assert.Equal(t, http.StatusInternalServerError, get("/reports"))
	assert.Contains(t, text.String(), "recovered")
	assert.Equal(t, http.StatusOK, get("/"))
}
