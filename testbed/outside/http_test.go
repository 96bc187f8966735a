package outside

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/wire"
)

// session answers requests as a session does, but those whose path contains wrong, which it
// answers with a status of its own.
type session struct {
	wrong  string
	status int
	asked  chan string // "METHOD path"
	ended  atomic.Int64
}

func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.Method + " " + r.URL.Path
	select {
	case s.asked <- asked:
	default:
	}
	switch {
	case s.wrong != "" && strings.Contains(asked, s.wrong):
		http.Error(w, `{"code":"internal","detail":"a panic"}`, s.status)
	case strings.HasSuffix(asked, "/events"):
		fmt.Fprintf(w, ": list\n\nid: 1\nevent: version\ndata: {\"dataId\":\"b\",\"version\":7,\"cursor\":\"1\",\"values\":[\"x\"]}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		s.ended.Add(1)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
	default:
		renew := `,"renewAfterMs":10`
		if r.Method == http.MethodDelete {
			renew = ""
		}
		fmt.Fprintf(w, `{"stored":true%s,"session":"session-1"}`, renew)
	}
}

// start starts a client of sessions.
func start(t *testing.T, sessions ...*session) *HTTPClient {
	cfg := client.Config{Name: "c"}
	for _, s := range sessions {
		s.asked = make(chan string, 1000)
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		cfg.Sessions = append(cfg.Sessions, strings.TrimPrefix(server.URL, "http://"))
	}
	c := NewHTTPClient(cfg, func() {})
	t.Cleanup(c.Kill)
	return c
}

// await waits for a request.
func (s *session) await(t *testing.T, want string) {
	t.Helper()
	for late := time.After(10 * time.Second); ; {
		select {
		case asked := <-s.asked:
			if asked == want {
				return
			}
		case <-late:
			require.Fail(t, "no request", want)
		}
	}
}

// Each kind of request of docs/http.md is sent; what is refused with a reason is sent again,
// and to another session if that does not answer.
func TestHTTPClient_UsesAllRequests(t *testing.T) {
	first, second := &session{}, &session{wrong: "/renew", status: http.StatusNotFound}
	c := start(t, first, second)
	pushed := make(chan conclave.Datum, 10)
	for _, dataID := range []string{"a", "b"} {
		require.NoError(t, c.Subscribe(dataID, func(d conclave.Datum) { pushed <- d }))
		p, err := c.Publish(t.Context(), dataID, []string{"x"})
		require.NoError(t, err)
		require.NoError(t, p.Stored(t.Context()))
	}
	assert.EqualValues(t, 7, (<-pushed).Version)
	first.await(t, "GET /v1/services/a")
	first.await(t, "POST /v1/services/b/registrations/c-2/renew")
	require.NotEmpty(t, c.Connected())
	_ = c.settle(http.MethodGet, 0, context.DeadlineExceeded) // one request fails
	assert.Eventually(t, func() bool { return first.ended.Load() == 1 }, 10*time.Second, time.Millisecond, "the stream goes, too")
	second.await(t, "POST /v1/services/b/registrations/c-2/renew")
	second.await(t, "PUT /v1/services/b/registrations/c-2")
	assert.EqualValues(t, 7, (<-pushed).Version)
	require.NoError(t, c.ctx.Err())
}

// A withdrawal that was stored is sent again when its session is lost (storm 1864).
func TestHTTPClient_RepeatsAStoredWithdrawal(t *testing.T) {
	first, second := &session{}, &session{}
	c := start(t, first, second)
	p, err := c.Publish(t.Context(), "a", []string{"x"})
	require.NoError(t, err)
	require.NoError(t, p.Withdraw())
	require.NoError(t, p.Stored(t.Context()))
	_ = c.settle(http.MethodGet, 0, context.DeadlineExceeded) // one request fails
	second.await(t, "DELETE /v1/services/a/registrations/c-1")
}

// A repeated withdrawal that is answered 409 was done before something newer was registered.
func TestHTTPClient_RepeatedWithdrawalLeavesWhatIsNewer(t *testing.T) {
	first, second := &session{}, &session{wrong: "DELETE", status: http.StatusConflict}
	c := start(t, first, second)
	p, err := c.Publish(t.Context(), "a", []string{"x"})
	require.NoError(t, err)
	require.NoError(t, p.Withdraw())
	require.NoError(t, p.Stored(t.Context()))
	_ = c.settle(http.MethodGet, 0, context.DeadlineExceeded) // one request fails
	second.await(t, "DELETE /v1/services/a/registrations/c-1")
	kept := make(chan struct{})
	go func() { c.work.Wait(); close(kept) }()
	select {
	case <-kept:
	case <-time.After(httpRepeat / 3):
		require.Fail(t, "it is repeated")
	}
	assert.Empty(t, second.asked)
}

// An answer for which docs/http.md has no reason is the error of what waits, and ends the client.
func TestHTTPClient_UnexpectedAnswerIsAnError(t *testing.T) {
	for wrong, status := range map[string]int{
		"PUT": http.StatusInternalServerError, "/renew": http.StatusGone, "GET /v1/services/a": http.StatusNotFound, "/events": http.StatusBadRequest,
	} {
		c := start(t, &session{wrong: wrong, status: status})
		require.NoError(t, c.Subscribe("a", func(conclave.Datum) {}))
		require.NoError(t, c.Subscribe("b", func(conclave.Datum) {}))
		p, err := c.Publish(t.Context(), "a", []string{"x"})
		require.NoError(t, err)
		_, _ = c.Publish(t.Context(), "b", []string{"x"}) // it may have ended already
		select {
		case <-c.ctx.Done():
		case <-time.After(10 * time.Second):
			require.Fail(t, "the client goes on", wrong)
		}
		require.NoError(t, p.Update([]string{"y"}))
		for _, err := range []error{p.Stored(t.Context()), c.Close(t.Context())} {
			assert.Equal(t, wire.CodeInternal, wire.CodeOf(err), "%s: %v", wrong, err)
		}
	}
}

// A client is closed again with the cluster of its group: what it says is what it said first.
func TestHTTPClient_SecondCloseSaysWhatTheFirstHasSaid(t *testing.T) {
	left := start(t, &session{})
	_, err := left.Publish(t.Context(), "a", []string{"x"})
	require.NoError(t, err)
	require.NoError(t, left.Close(t.Context()))
	assert.NoError(t, left.Close(t.Context()))
	alone := start(t, &session{wrong: "/", status: http.StatusServiceUnavailable})
	_, err = alone.Publish(t.Context(), "a", []string{"x"})
	require.NoError(t, err)
	limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, alone.Close(limited), context.DeadlineExceeded)
	assert.ErrorIs(t, alone.Close(t.Context()), context.DeadlineExceeded)
}
