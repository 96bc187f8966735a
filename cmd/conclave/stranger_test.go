package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// recorder is a listener that answers every call with an error, and records the
// paths and credentials that it was sent.
type recorder struct {
	address string
	mu      sync.Mutex      // guards the rest
	paths   map[string]bool // of requests with a credential
	tokens  map[string]bool
	text    string // all headers
}

func record(t *testing.T) *recorder {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &recorder{address: ln.Addr().String(), paths: map[string]bool{}, tokens: map[string]bool{}}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if token := wire.TokenOf(req.Header); token != "" {
			r.tokens[token], r.paths[req.URL.Path] = true, true
		}
		for name, values := range req.Header {
			r.text += name + ": " + strings.Join(values, " ") + "\n"
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Protocols.SetHTTP1(true)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) }) // until it is closed
	t.Cleanup(func() { server.Close(); serving.Wait() })
	return r
}

// asked reports whether a request to path came with a credential.
func (r *recorder) asked(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[path]
}

// A process with a node's token names its own address to every node: as that of the
// leader, of a peer with a newer table, and of a node that joins. Nothing that it is
// sent there contains a token, or is accepted by a node of the cluster.
func TestUp_StrangersAddressIsSentNothingOfUse(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	nodes := map[string]string{}
	for _, p := range decode[[]supervisor.Process](t, tool(t, "--dir", dir, "--json", "up", "--detach", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16")) {
		if p.HTTP != "" {
			nodes[p.Role] = p.HTTP
		}
	}
	tokens, err := rights.ReadFile(supervisor.TokensPath(dir))
	require.NoError(t, err)
	stranger := record(t)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	view := wire.NewView()
	epoch := conclave.Epoch{Term: 1, Seq: 1 << 20}
	self := wire.Member{Node: conclave.NodeID{Name: "data-9", Incarnation: "stranger"}, Role: conclave.RoleData, Address: stranger.address}
	only := slot.Slot{Phase: slot.Stable, Leader: self.Node, LeaderEpoch: epoch}
	_, err = view.Apply(&wirev1.State{Table: wire.TableOut(slot.Table{Epoch: epoch, Slots: []slot.Slot{only}}, 2)})
	require.NoError(t, err)
	peers := wire.NewPeers(wire.NewTCP(), &wire.Interceptor{
		Address: stranger.address, View: view, Token: func(string) string { return tokens.Token(rights.Node, "stranger") },
	}, wire.PingTimeout)
	defer peers.Close()
	joining := peers.Meta(nodes["meta"]).Join(ctx)
	require.NoError(t, joining.Send(&wirev1.JoinRequest{Member: wire.MemberOut(self), Ready: true, DataCenter: "default", Beat: 1, AllReports: true}))
	for role, address := range nodes {
		_, err := peers.Node(address).FetchState(ctx, connect.NewRequest(&wirev1.FetchStateRequest{}))
		require.NoError(t, err, role)
	}
	// Only then the announcements: a table of the term that the meta wins after them is
	// newer than the stranger's, and then nothing is fetched.
	require.Eventually(t, func() bool { return stranger.asked("/conclave.v1.NodeService/FetchState") },
		25*time.Second, 10*time.Millisecond, "what a header names is called")
	// The tool asks every node that the metas list. The meta may win the next term before
	// all have heard of the stranger's.
	term := uint64(1)
	require.Eventually(t, func() bool {
		term += 100
		for _, address := range nodes {
			_, err := peers.Node(address).Announce(ctx, connect.NewRequest(&wirev1.AnnounceRequest{Term: term, Leader: wire.NodeOut(self.Node), Address: stranger.address}))
			if code := wire.CodeOf(wire.FromConnect(err)); err != nil && code != wire.CodeStaleEpoch {
				t.Log(err)
			}
		}
		tool(t, "--meta", nodes["meta"], "--token", tokens.Strongest(), "events")
		return stranger.asked("/conclave.v1.MetaService/Join")
	}, 25*time.Second, 200*time.Millisecond, "what an announcement names is called")

	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	t.Log(stranger.paths)
	require.NotEmpty(t, stranger.tokens)
	for right := rights.Read; right <= rights.Operator; right++ {
		assert.NotContains(t, stranger.text, tokens.Token(right, "local"), right)
	}
	for sent := range stranger.tokens {
		for role, address := range nodes {
			for _, path := range []string{"/v1/stopping", "/v1/events?follow=false"} {
				assert.Equal(t, http.StatusUnauthorized, outside.Status(ctx, http.DefaultClient, "http://"+address+path, sent), "%s %s", role, path)
			}
		}
	}
}
