package live

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/data"
	"conclave/session/registry"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/wire"
	"conclave/wire/serve"
)

// lists is a node that answers with lists in pages, as nodes do.
type lists struct {
	datums      []data.DatumInfo
	publishers  []registry.Publisher
	subscribers []registry.Subscriber
	asked       atomic.Int64
	rows        atomic.Int64 // that were sent
	token       string
}

func write[T any](n *lists, w http.ResponseWriter, r *http.Request, rows []T, key func(T) string, keep func(T) bool) {
	n.asked.Add(1)
	serve.WriteList(w, r, serve.List[T, T]{Key: key, Keys: func(add func(...T)) {
		for _, row := range rows {
			if keep(row) {
				add(row)
			}
		}
	}, Rows: func(rows []T) []T { n.rows.Add(int64(len(rows))); return rows }})
}

func (n *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wire.TokenOf(r.Header) != n.token {
		serve.WriteError(w, wire.Errorf(wire.CodeUnauthorized, "the token is missing"))
		return
	}
	q := r.URL.Query()
	match, of := q.Get("match"), q.Get("dataId")
	switch r.URL.Path {
	case "/v1/datums":
		write(n, w, r, n.datums, services.key, func(d data.DatumInfo) bool {
			return strings.HasPrefix(d.String(), q.Get("prefix")) && strings.Contains(d.String(), match)
		})
	case "/v1/publishers":
		write(n, w, r, n.publishers, publishers.key, func(p registry.Publisher) bool {
			return (of == "" || p.Data.String() == of) && strings.Contains(p.Client, match)
		})
	case "/v1/subscribers":
		write(n, w, r, n.subscribers, subscribers.key, func(s registry.Subscriber) bool {
			return (of == "" || s.String() == of) && strings.Contains(s.Client, match)
		})
	}
}

func nameOf(n int) conclave.DataInfoID {
	id, _ := conclave.NewDataInfoID(fmt.Sprintf("service-%05d", n), "", "")
	return id
}

// listed returns a source that has looked at nodes with lists.
func listed(t *testing.T, role string, nodes ...*lists) *Source {
	s := New(Config{HTTP: http.DefaultClient, TokenFor: func(string) string { return "secret" }})
	s.seen = &sight{}
	for i, n := range nodes {
		n.token = "secret"
		h := httptest.NewServer(n)
		t.Cleanup(h.Close)
		s.seen.processes = append(s.seen.processes, testbed.Status{Name: fmt.Sprintf("%s-%d", role, i+1), Role: role, State: "ready", HTTP: strings.TrimPrefix(h.URL, "http://")})
	}
	return s
}

// pages reads a list page by page.
func pages[T any](t *testing.T, s *Source, r console.Request) (out []row[T], n int) {
	for {
		page, err := s.List(t.Context(), r)
		require.NoError(t, err)
		require.Empty(t, page.Silent)
		n++
		rows := page.Rows.([]row[T])
		require.True(t, page.Next == "" || len(rows) >= listRows)
		out = append(out, rows...)
		if r.After = page.Next; r.After == "" {
			return out, n
		}
	}
}

// Ten thousand services of three data nodes are listed in pages: each once, in order,
// and no node sends more than a page of them for one.
func TestList_TenThousandServicesInPages(t *testing.T) {
	nodes := []*lists{{}, {}, {}}
	for i := range 10_000 {
		d := data.DatumInfo{DataInfoID: nameOf(i), Slot: i % 256, Version: int64(i), Publishers: 1}
		nodes[i%3].datums = append(nodes[i%3].datums, d)
		if i%100 == 0 { // its slot is being handed over: both list it
			d.Version++
			nodes[(i+1)%3].datums = append(nodes[(i+1)%3].datums, d)
		}
	}
	s := listed(t, "data", nodes...)
	all, n := pages[data.DatumInfo](t, s, console.Request{Do: "services"})
	require.Len(t, all, 10_000)
	assert.Equal(t, 200, n)
	for i, r := range all {
		require.Equal(t, nameOf(i), r.Row.DataInfoID)
		if i%100 == 0 {
			require.EqualValues(t, i+1, r.Row.Version, "the higher one")
			require.Equal(t, fmt.Sprintf("data-%d", (i+1)%3+1), r.Node)
		}
	}
	for _, node := range nodes {
		assert.EqualValues(t, 200, node.asked.Load())
		assert.LessOrEqual(t, node.rows.Load(), node.asked.Load()*(listRows+1))
	}

	some, n := pages[data.DatumInfo](t, s, console.Request{Do: "services", Value: "service-012"})
	assert.Len(t, some, 100)
	assert.Equal(t, 2, n)
	one, n := pages[data.DatumInfo](t, s, console.Request{Do: "services", Of: nameOf(77).String()})
	assert.Equal(t, 1, n)
	require.Len(t, one, 1)
	assert.Equal(t, nameOf(77), one[0].Row.DataInfoID)
	none, _ := pages[data.DatumInfo](t, s, console.Request{Do: "services", Value: "x"})
	assert.Empty(t, none)
}

// A registration that its client has taken to another session is shown once, as it is there.
// Subscriptions are all shown, even if those of several sessions have one key.
func TestList_PublishersAndSubscribersOfSessions(t *testing.T) {
	nodes := []*lists{{}, {}}
	for i := range 300 {
		p := registry.Publisher{Publisher: conclave.Publisher{ID: fmt.Sprint("p", 1000+i), Data: nameOf(i % 2), Version: 1}, Client: fmt.Sprint("client-", i%10), ClientID: "secret"}
		nodes[0].publishers = append(nodes[0].publishers, p)
		if i%3 == 0 {
			p.Version = 2
			nodes[1].publishers = append(nodes[1].publishers, p)
		}
		for _, n := range nodes {
			n.subscribers = append(n.subscribers, registry.Subscriber{
				DataInfoID: nameOf(7), ID: "same", Connection: uint64(i), Client: fmt.Sprint("client-", i%10), ClientID: "secret",
				Pushes: []registry.Pushed{{AtMs: 100, Version: 4, Values: 2, Subscribers: 300}, {AtMs: 200, Version: 5, Values: 3, Subscribers: 300}},
			})
		}
	}
	s := listed(t, "session", nodes...)
	all, _ := pages[registry.Publisher](t, s, console.Request{Do: "publishers"})
	require.Len(t, all, 300)
	moved := 0
	for _, r := range all {
		if r.Node == "session-2" {
			moved++
			require.EqualValues(t, 2, r.Row.Version)
		}
	}
	assert.Equal(t, 100, moved)
	of, _ := pages[registry.Publisher](t, s, console.Request{Do: "publishers", Of: nameOf(1).String(), Value: "client-3"})
	assert.Len(t, of, 30)

	assert.Empty(t, of[0].Row.ClientID, "with which a client comes back")

	subs, _ := pages[registry.Subscriber](t, s, console.Request{Do: "subscribers"})
	assert.Empty(t, subs[0].Row.ClientID)
	assert.Empty(t, subs[0].Row.Pushes)
	assert.Len(t, subs, 600, "none is left out between two pages")
	assert.True(t, slices.IsSortedFunc(subs, func(a, b row[registry.Subscriber]) int {
		return strings.Compare(subscribers.key(a.Row), subscribers.key(b.Row))
	}))
	page, err := s.List(t.Context(), console.Request{Do: "subscribers", Of: nameOf(7).String()})
	require.NoError(t, err)
	var last []string
	for _, p := range page.Pushes {
		last = append(last, fmt.Sprint(p.Session, " ", p.Version, " ", p.Values))
	}
	assert.Equal(t, []string{"session-1 5 3", "session-2 5 3", "session-1 4 2", "session-2 4 2"}, last)
	nodes[1].subscribers = nodes[1].subscribers[:1] // all of them are on the first page
	second, err := s.List(t.Context(), console.Request{Do: "subscribers", Of: nameOf(7).String(), After: page.Next})
	require.NoError(t, err)
	assert.Equal(t, page.Pushes, second.Pushes)
}

// A node that does not answer, or refuses, is named; the others' rows are shown.
func TestList_NamesNodesThatDoNotAnswer(t *testing.T) {
	nodes := []*lists{{datums: []data.DatumInfo{{DataInfoID: nameOf(1)}}}, {}, {}, {}}
	s := listed(t, "data", nodes...)
	nodes[1].token = "another"
	s.seen.processes[2].State = "suspended"
	s.seen.processes[3].State = "killed"
	page, err := s.List(t.Context(), console.Request{Do: "services"})
	require.NoError(t, err)
	assert.Len(t, page.Rows, 1)
	assert.Equal(t, []string{"data-2", "data-3"}, page.Silent)
	assert.Zero(t, nodes[2].asked.Load()+nodes[3].asked.Load())

	_, err = s.List(t.Context(), console.Request{Do: "clients"})
	assert.ErrorContains(t, err, `unknown list "clients"`)
	page, err = New(Config{HTTP: http.DefaultClient}).List(t.Context(), console.Request{Do: "services"})
	require.NoError(t, err)
	assert.Empty(t, page.Rows, "nothing was looked at yet")

	// Lists wait for one another, and for no longer than their viewers.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range listsEach {
		require.True(t, s.listings.Try("a", 1))
	}
	_, err = s.List(ctx, console.Request{Do: "services", By: "a"})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = s.List(t.Context(), console.Request{Do: "services", By: "b"})
	assert.NoError(t, err, "one host leaves places for others")
}
