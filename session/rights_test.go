package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/data"
	"conclave/session"
	"conclave/wire"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

const tokenLines = "node all n-token\nread page r-token\npublish shop p-token\npublish bank b-token\n"

// tokenFile is the token file of a cluster.
type tokenFile struct {
	t      testing.TB
	path   string
	tokens *rights.Tokens
}

func newTokenFile(t testing.TB) *tokenFile {
	f := &tokenFile{t: t, path: filepath.Join(t.TempDir(), "tokens")}
	require.NoError(t, os.WriteFile(f.path, []byte(tokenLines), 0o600))
	var err error
	f.tokens, err = rights.OpenFile(f.path, func(err error) { assert.NoError(t, err) })
	require.NoError(t, err)
	return f
}

func (f *tokenFile) write(lines string) {
	require.NoError(f.t, os.WriteFile(f.path, []byte(lines), 0o600))
	f.tokens.Reload()
}

// startWith starts a data node and sessions with tokens.
func (c *cluster) startWith(f *tokenFile, sessions ...string) {
	c.startData("data-1", func(d *data.Config) { d.Tokens = f.tokens })
	for _, name := range sessions {
		c.startSession(name, func(s *session.Config) { s.Tokens = f.tokens })
	}
	c.settle()
}

func (c *cluster) rawWith(token, name, session string) *raw {
	ctx, cancel := context.WithCancel(c.ctx)
	peers := wire.NewPeers(c.host(name), &wire.Interceptor{Token: func(string) string { return token }}, wire.PingTimeout)
	return &raw{c: c, stream: peers.Client(c.sessions[session].server.Address()).Connect(ctx), cancel: cancel, peers: peers}
}

func (c *cluster) getWith(token, session, path string) (status int, list []map[string]any) {
	transport := &http.Transport{DialContext: c.host("operator").DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://"+c.sessions[session].server.Address()+path, nil)
	require.NoError(c.t, err)
	wire.SetToken(req.Header, token)
	res, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(c.t, err)
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&list)
	return res.StatusCode, list
}

// What a token allows at a session, over the protocol and HTTP.
func TestRights_OfEachToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1")
		for _, token := range []string{"", "guess"} {
			r := c.rawWith(token, "stranger", "session-1")
			r.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "x", Name: "x"}})
			_, err := r.stream.Receive()
			assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(wire.FromConnect(err)), "%v", err)
			r.end()
			status, _ := c.getWith(token, "session-1", "/v1/publishers")
			assert.Equal(t, http.StatusUnauthorized, status)
		}
		reader := c.rawWith("r-token", "reader", "session-1").hello("reader")
		defer reader.end()
		p := &wirev1.Publisher{Id: "secret-id", DataInfoId: svc, Version: 1, Values: []string{"a"}}
		m := reader.answer(p)
		require.Len(t, m.GetRefused(), 1)
		assert.Equal(t, string(wire.CodeForbidden), m.GetRefused()[0].GetCode())
		shop := c.rawWith("p-token", "shop", "session-1").hello("shop")
		defer shop.end()
		require.Len(t, shop.answer(p).GetAccepted(), 1)

		status, list := c.getWith("r-token", "session-1", "/v1/publishers")
		assert.Equal(t, http.StatusOK, status)
		require.Len(t, list, 1)
		assert.NotEqual(t, "secret-id", list[0]["id"], "with it one can replace the registration at another session")
		_, list = c.getWith("n-token", "session-1", "/v1/publishers")
		assert.Equal(t, "secret-id", list[0]["id"])
		status, _ = c.getWith("", "session-1", "/readyz")
		assert.Equal(t, http.StatusOK, status)
	})
}

// answer sends a registration and returns the message that accepts or refuses it.
func (r *raw) answer(p *wirev1.Publisher) *wirev1.ServerMessage {
	r.send(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{p}})
	return r.until(func(m *wirev1.ServerMessage) bool { return len(m.GetAccepted())+len(m.GetRefused()) > 0 })
}

// A registration belongs to the identity that made it.
func TestRights_AnotherPublisherReplacesNothing(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1")
		shop := c.rawWith("p-token", "shop", "session-1").hello("shop")
		defer shop.end()
		require.Len(t, shop.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"mine"}}).GetAccepted(), 1)
		bank := c.rawWith("b-token", "bank", "session-1").hello("bank")
		defer bank.end()
		for _, p := range []*wirev1.Publisher{
			{Id: "a", DataInfoId: svc, Version: 2, Withdrawn: true},
			{Id: "a", DataInfoId: svc, Version: 2, Values: []string{"theirs"}},
			{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"theirs"}},
		} {
			m := bank.answer(p)
			require.Len(t, m.GetRefused(), 1)
			assert.Equal(t, string(wire.CodeUnauthorized), m.GetRefused()[0].GetCode())
		}
		_, list := c.getWith("n-token", "session-1", "/v1/publishers")
		require.Len(t, list, 1)
		assert.Equal(t, "shop", list[0]["client"])
		again := c.rawWith("p-token", "shop-2", "session-1").hello("shop-2")
		defer again.end()
		require.Len(t, again.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 2, Values: []string{"mine too"}}).GetAccepted(), 1)
	})
}

// What a session hands over for a client that has left belongs to that client's
// identity. Only a node may name another identity.
func TestRights_WhatIsHandedOverKeepsItsIdentity(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1", "session-2")
		as := c.rawWith("b-token", "bank", "session-2")
		as.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "bank", Departed: &wirev1.Departed{Identity: "shop"}}})
		_, err := as.stream.Receive()
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(wire.FromConnect(err)), "%v", err)
		as.end()

		shop := c.rawWith("p-token", "shop", "session-1")
		shop.send(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "shop", Name: "shop", LingerMs: 3600_000}})
		shop.until(func(m *wirev1.ServerMessage) bool { return m.GetWelcome() != nil })
		require.Len(t, shop.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"mine"}}).GetAccepted(), 1)
		require.NoError(t, shop.stream.CloseRequest())
		time.Sleep(time.Second)
		require.NoError(t, c.sessions["session-1"].server.Shutdown(c.ctx))
		time.Sleep(time.Minute)
		_, list := c.getWith("n-token", "session-2", "/v1/publishers")
		require.Len(t, list, 1)
		assert.Equal(t, []any{"a", "shop"}, []any{list[0]["id"], list[0]["client"]})
		bank := c.rawWith("b-token", "bank", "session-2").hello("bank")
		defer bank.end()
		assert.Len(t, bank.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 2, Withdrawn: true}).GetRefused(), 1)
		again := c.rawWith("p-token", "shop-2", "session-2").hello("shop-2")
		defer again.end()
		assert.Len(t, again.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 2, Values: []string{"mine too"}}).GetAccepted(), 1)
	})
}

// A token is replaced while clients work: with both valid for a while nothing is
// ever missing, and the connection with the old one ends when that is removed.
func TestRights_RotationLosesNothing(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		f := newTokenFile(t)
		c.startWith(f, "session-1", "session-2")
		own := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(own, []byte("p-token\n"), 0o600))
		x, err := client.New(client.Config{
			Sessions:  []string{c.sessions["session-1"].server.Address(), c.sessions["session-2"].server.Address()},
			TokenFrom: client.TokenFile(own), Network: c.host("shop"), Rand: c.seed(),
		})
		require.NoError(t, err)
		c.clients = append(c.clients, x)
		x.Start()
		c.published(x, "svc", "a")
		sub := c.watch(x, "svc")
		c.eventually("it is seen", sub.shows("a"))

		f.write(tokenLines + "publish shop p-new\n")
		require.NoError(t, os.WriteFile(own, []byte("# new\np-new\n"), 0o600))
		time.Sleep(time.Minute)
		assert.Zero(t, x.Lost())
		f.write("node all n-token\npublish shop p-new\n")
		c.eventually("the connection has ended", func() bool { return x.Lost() == 1 })
		c.eventually("it is back", func() bool { return len(x.Connected()) == 1 })
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, x.Lost())
		for _, d := range sub.all() {
			assert.Equal(t, []string{"a"}, d.Values, "no list without it")
		}

		// The order is wrong: the client has no valid token for a while.
		f.write("node all n-token\npublish shop p-later\n")
		c.eventually("the connection has ended", func() bool { return x.Lost() == 2 })
		time.Sleep(30 * time.Second)
		p := c.publish(x, "svc", "b")
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		err = p.Stored(ctx)
		cancel()
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(err), "%v", err)
		require.NoError(t, os.WriteFile(own, []byte("p-later\n"), 0o600))
		ctx, cancel = context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		require.NoError(t, p.Stored(ctx), "it is sent with the new one")
		c.eventually("both are seen", sub.shows("a", "b"))
	})
}

// All tokens are replaced three times while forty clients change what they publish:
// no list is ever without one of them.
func TestRights_RotationUnderLoadMissesNothing(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		f := newTokenFile(t)
		c.startData("data-2", func(d *data.Config) { d.Tokens = f.tokens })
		c.startWith(f, "session-1", "session-2")
		own := filepath.Join(t.TempDir(), "token")
		give := func(token string) { require.NoError(t, os.WriteFile(own, []byte(token+"\n"), 0o600)) }
		give("p-token")
		addresses := []string{c.sessions["session-1"].server.Address(), c.sessions["session-2"].server.Address()}
		const n = 40
		var clients []*client.Client
		var published []*client.Publication
		for i := range n {
			x, err := client.New(client.Config{Sessions: addresses, TokenFrom: client.TokenFile(own), Network: c.host(fmt.Sprint("app-", i)), Rand: c.seed()})
			require.NoError(t, err)
			c.clients, clients = append(c.clients, x), append(clients, x)
			x.Start()
			published = append(published, c.published(x, "svc", fmt.Sprintf("%d: 0", i)))
		}
		seen := c.watch(clients[0], "svc")
		c.eventually("all are seen", func() bool { all := seen.all(); return len(all) > 0 && len(all[len(all)-1].Values) == n })
		before := len(seen.all())
		changes := 0
		work := func(d time.Duration) {
			for range d / (50 * time.Millisecond) {
				time.Sleep(50 * time.Millisecond)
				changes++
				require.NoError(t, published[changes%n].Update([]string{fmt.Sprintf("%d: %d", changes%n, changes)}))
			}
		}
		of := func(round int) string { return fmt.Sprintf("node all n-%d\npublish shop p-%d\n", round, round) }
		last := tokenLines
		for round := range 3 {
			f.write(last + of(round))
			work(time.Second)
			give(fmt.Sprint("p-", round))
			work(time.Second)
			last = of(round)
			f.write(last)
			work(10 * time.Second)
		}
		ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		defer cancel()
		for _, p := range published {
			require.NoError(t, p.Stored(ctx))
		}
		for _, x := range clients {
			assert.EqualValues(t, 3, x.Lost(), "each old token was removed")
		}
		for _, d := range seen.all()[before:] {
			assert.Len(t, d.Values, n, "%v", d.Values)
		}
		assert.Greater(t, len(seen.all())-before, 300, "under load")
	})
}
