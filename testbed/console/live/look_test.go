package live

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/wire"
	"conclave/wire/rights"
)

// server answers with documents, by path, and notes the tokens that it is sent.
type server struct {
	address string

	mu     sync.Mutex // guards the rest
	says   map[string]any
	tokens map[string]string // by path
}

func serves(t *testing.T, says map[string]any) *server {
	s := &server{says: says, tokens: map[string]string{}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if token := wire.TokenOf(r.Header); token != "" {
			s.tokens[r.URL.Path] = token
		}
		document, ok := s.says[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(h.Close)
	s.address = strings.TrimPrefix(h.URL, "http://")
	return s
}

func (s *server) sent() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for path, token := range s.tokens {
		out[path] = token
	}
	return out
}

// A meta lists the address of a stranger as that of a session, and of another meta:
// what is sent there is of use at this address only.
func TestRun_StrangersAreSentABoundToken(t *testing.T) {
	stranger := serves(t, nil)
	meta := serves(t, map[string]any{"/healthz": map[string]string{"name": "meta-1", "incarnation": "a"}, "/readyz": struct{}{}})
	meta.says["/v1/nodes"] = []metaclient.NodeInfo{
		{Name: "meta-1", Role: conclave.RoleMeta, Address: meta.address}, {Name: "meta-2", Role: conclave.RoleMeta, Address: stranger.address},
	}
	stranger.says = map[string]any{"/healthz": map[string]string{"name": "meta-2", "incarnation": "b"}, "/readyz": struct{}{}}

	tokenFor := func(address string) string { return rights.TokenFor("secret", address, []string{meta.address}) }
	s := New(Config{HTTP: http.DefaultClient, TokenFor: tokenFor, Processes: Remote([]string{meta.address}, http.DefaultClient, tokenFor)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, s.Run(ctx, console.NewHub())) })
	defer running.Wait()
	defer cancel()
	require.Eventually(t, func() bool {
		sent := stranger.sent()
		return sent["/leaderz"] != "" && sent["/v1/leader"] != "" && sent["/v1/slots"] != "" && sent["/v1/events"] != ""
	}, 20*time.Second, 20*time.Millisecond, "%v", stranger.sent())
	for path, token := range stranger.sent() {
		assert.Equal(t, rights.Bind("secret", stranger.address), token, path)
	}
	assert.Equal(t, "secret", meta.sent()["/v1/nodes"], "its address was given")

	session := testbed.Status{Name: "session-9", Role: "session", HTTP: stranger.address, State: "ready"}
	s.looker.sessionClients(ctx, session)
	assert.Equal(t, rights.Bind("secret", stranger.address), stranger.sent()["/v1/clients"])
}

// While no meta leads, the page shows the last term and no leader.
func TestLook_KeepsTheTermDuringAFailover(t *testing.T) {
	meta := serves(t, map[string]any{"/v1/leader": metaclient.LeaderInfo{Leader: "meta-1", Term: 7}})
	l := &looker{http.DefaultClient, func(string) string { return "" }, func(context.Context) ([]testbed.Status, error) {
		return []testbed.Status{{Name: "meta-2", Role: "meta", HTTP: meta.address, State: "ready"}}, nil
	}}
	before, err := l.look(t.Context(), nil)
	require.NoError(t, err)
	assert.EqualValues(t, 7, before.leader.Term)
	for _, says := range []map[string]any{{}, {"/v1/leader": metaclient.LeaderInfo{Leader: "meta-3", Term: 6}}} {
		meta.mu.Lock()
		meta.says = says
		meta.mu.Unlock()
		seen, err := l.look(t.Context(), before)
		require.NoError(t, err)
		assert.EqualValues(t, 7, seen.leader.Term)
		assert.Empty(t, seen.leader.Leader)
	}
}

// A node follows the meta that lists it with its stream, as far as this look knows.
func TestNodes_FollowTheMetaThatHoldsTheirStream(t *testing.T) {
	seen := &sight{
		processes: []testbed.Status{
			{Name: "meta-1", Role: "meta", State: "ready"}, {Name: "meta-2", Role: "meta", State: "ready"}, {Name: "data-1", Role: "data", State: "draining"},
			{Name: "data-2", Role: "data", State: "ready"}, {Name: "data-3", Role: "data", State: "killed"}, {Name: "data-4", Role: "data", State: "ready", Incarnation: "new"}, {Name: "db", Role: "db", State: "ready"},
		},
		nodes: []metaclient.NodeInfo{
			{Name: "data-1", State: metaclient.NodeDraining}, {Name: "data-2", State: metaclient.NodeSuspect}, {Name: "data-3", State: metaclient.NodeUp},
			{Name: "data-4", State: metaclient.NodeUp, Incarnation: "old"}, {Name: "meta-1", State: metaclient.NodeUp}, {Name: "meta-2", State: metaclient.NodeUp, Leading: true},
		},
		leader: metaclient.LeaderInfo{Leader: "meta-1"}, // the newest term is not that of the meta that answered
	}
	follow := func() map[string]string {
		out := map[string]string{}
		for name, n := range nodes(seen, nil, time.Second) {
			if n.Meta != "" {
				out[name] = n.Meta
			}
		}
		return out
	}
	assert.Equal(t, map[string]string{"data-1": "meta-2", "meta-1": "meta-2"}, follow())
	seen.partial = true
	assert.Empty(t, follow(), "what it listed earlier is not shown as if it were true now")
}

func TestKnown_AsksThoseWithoutAState(t *testing.T) {
	node := serves(t, map[string]any{"/healthz": map[string]string{"name": "data-1", "incarnation": "x"}, "/readyz": map[string]any{"reasons": []string{"draining"}}})
	rows := []testbed.Status{
		{Name: "data-1", HTTP: node.address, PID: 7}, {Name: "data-2", HTTP: node.address, State: "killed"}, {Name: "data-3", HTTP: "127.0.0.1:1", PID: 8}, {Name: "db", State: "ready"},
	}
	got, err := Known(func() []testbed.Status { return rows }, http.DefaultClient)(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []testbed.Status{
		{Name: "data-1", HTTP: node.address, PID: 7, State: "draining", Why: "draining", Incarnation: "x"},
		{Name: "data-2", HTTP: node.address, State: "killed"}, {Name: "data-3", HTTP: "127.0.0.1:1", PID: 8, State: "unreachable"}, {Name: "db", State: "ready"},
	}, got)
}
