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
	s := httptest.NewServer(contain.Handler(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			fails()
		case "/aborts":
			panic(http.ErrAbortHandler)
		case "/reports":
			http.Error(w, contain.Reported(r.Context(), "recovered").Error(), http.StatusInternalServerError)
		}
	})))
	defer s.Close()
	get := func(path string) (int, error) {
		res, err := http.Get(s.URL + path)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		return res.StatusCode, nil
	}
	_, err := get("/fails")
	assert.Error(t, err)
	assert.Contains(t, text.String(), "contain_test.fails")
	_, err = get("/aborts")
	assert.Error(t, err)
	assert.Equal(t, before+1, contain.Count(), "to abort a request is no defect")
	status, err := get("/reports")
	assert.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, text.String(), "recovered")
	status, err = get("/")
	assert.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
}
