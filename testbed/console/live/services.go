package live

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/data"
	"conclave/internal/join"
	"conclave/session/registry"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/outside"
	"conclave/wire"
)

const (
	listRows    = 50              // of a page
	listLimit   = 2 * time.Second // for the answer of one node
	listsAtOnce = 8               // that are put together; others wait
	listsEach   = 4               // of them for viewers at one host
	pushesShown = 20
)

// row is a row of a node's list.
type row[T any] struct {
	Row  T      `json:"row"`
	Node string `json:"node"`
}

// list is a list that each node of a role has of what it knows.
type list[T any] struct {
	role, path string
	of         string         // the parameter for a name
	key        func(T) string // by which each node sorts its rows
	version    func(T) int64  // of several rows with one key the highest is shown; nil: all are
	strip      func(*T)       // removes what viewers do not need
}

var services = list[data.DatumInfo]{
	role: "data", path: "/v1/datums?values=false", of: "prefix",
	key:     func(d data.DatumInfo) string { return d.String() },
	version: func(d data.DatumInfo) int64 { return d.Version },
	strip:   func(*data.DatumInfo) {},
}

// A client that has moved has its registrations at two sessions for a while.
var publishers = list[registry.Publisher]{
	role: "session", path: "/v1/publishers?brief=true", of: "dataId",
	key:     func(p registry.Publisher) string { return p.Data.String() + "\x00" + p.ID },
	version: func(p registry.Publisher) int64 { return p.Version },
	strip:   func(p *registry.Publisher) { p.ClientID = "" },
}

var subscribers = list[registry.Subscriber]{
	role: "session", path: "/v1/subscribers", of: "dataId",
	key: func(s registry.Subscriber) string {
		return fmt.Sprintf("%s\x00%s\x00%020d", s.DataInfoID, s.ID, s.Connection)
	},
	strip: func(s *registry.Subscriber) { s.ClientID, s.Pushes = "", nil },
}

// List implements console.Source: each page is put together from those of the nodes.
func (s *Source) List(ctx context.Context, r console.Request) (out console.Listing, err error) {
	turn, err := s.listings.Wait(ctx, r.By, 1)
	if err != nil {
		return out, err
	}
	defer turn.Leave()
	switch r.Do {
	case "services":
		_, err = page(ctx, s, services, r, &out)
	case "publishers":
		_, err = page(ctx, s, publishers, r, &out)
	case "subscribers":
		var all []row[registry.Subscriber]
		if all, err = page(ctx, s, subscribers, r, &out); err == nil && r.Of != "" {
			if r.After != "" { // a session may have no rows there
				r.After = ""
				all, err = page(ctx, s, subscribers, r, &console.Listing{})
			}
			out.Pushes = pushesOf(all)
		}
	default:
		err = wire.Errorf(wire.CodeBadRequest, "unknown list %.20q (want services, publishers or subscribers)", r.Do)
	}
	return out, err
}

// page puts a page together, and returns all rows that the nodes have answered. Each node
// sends one more row than a page has, so that the rows of all have the first ones of all.
func page[T any](ctx context.Context, s *Source, l list[T], r console.Request, out *console.Listing) ([]row[T], error) {
	path, fixed, _ := strings.Cut(l.path, "?")
	q, err := url.ParseQuery(fixed)
	if err != nil {
		return nil, err
	}
	q.Set("match", r.Value)
	q.Set("after", r.After)
	q.Set("limit", strconv.Itoa(listRows+1))
	q.Set(l.of, r.Of)
	q.Set("pushes", strconv.FormatBool(r.Of != ""))
	nodes := s.nodesOf(l.role)
	answers := join.Map(nodes, func(p testbed.Status) (rows []T) {
		ctx, cancel := context.WithTimeout(ctx, listLimit)
		defer cancel()
		if p.State == "suspended" || p.State == "unreachable" {
			return nil
		}
		rows = []T{}
		if status, err := outside.GetJSON(ctx, s.cfg.HTTP, "http://"+p.HTTP+path+"?"+q.Encode(), s.cfg.TokenFor(p.HTTP), &rows); err != nil || status != http.StatusOK {
			return nil
		}
		return rows
	})
	var all []row[T]
	for i, rows := range answers {
		if rows == nil {
			out.Silent = append(out.Silent, nodes[i].Name)
		}
		for _, r := range rows {
			all = append(all, row[T]{r, nodes[i].Name})
		}
	}
	shown := l.sort(slices.Clone(all))
	n := min(listRows, len(shown))
	for n > 0 && n < len(shown) && l.key(shown[n].Row) == l.key(shown[n-1].Row) {
		n++ // the next page begins above the key
	}
	if n < len(shown) {
		out.Next = l.key(shown[n-1].Row)
	}
	rows := append([]row[T]{}, shown[:n]...)
	for i := range rows {
		l.strip(&rows[i].Row)
	}
	out.Rows = rows
	return all, nil
}

// sort returns the rows in order, and of those with one key the one with the highest
// version, unless all are shown.
func (l *list[T]) sort(rows []row[T]) []row[T] {
	slices.SortStableFunc(rows, func(a, b row[T]) int {
		if by := cmp.Compare(l.key(a.Row), l.key(b.Row)); by != 0 || l.version == nil {
			return by
		}
		return -cmp.Compare(l.version(a.Row), l.version(b.Row))
	})
	if l.version == nil {
		return rows
	}
	return slices.CompactFunc(rows, func(a, b row[T]) bool { return l.key(a.Row) == l.key(b.Row) })
}

// nodesOf returns the nodes of a role that have a process.
func (s *Source) nodesOf(role string) (out []testbed.Status) {
	if seen := s.before(); seen != nil {
		for _, p := range seen.processes {
			if p.Role == role && p.HTTP != "" && p.State != "killed" && p.State != "exited" {
				out = append(out, p)
			}
		}
	}
	return out
}

// pushesOf returns the last pushes of all sessions; each has them in all of its rows.
func pushesOf(rows []row[registry.Subscriber]) (out []console.Push) {
	of := map[string]bool{}
	for _, r := range rows {
		if of[r.Node] {
			continue
		}
		of[r.Node] = true
		for _, p := range r.Row.Pushes {
			out = append(out, console.Push{AtMs: p.AtMs, Session: r.Node, Version: p.Version, Values: p.Values, Subscribers: p.Subscribers})
		}
	}
	slices.SortStableFunc(out, func(a, b console.Push) int { return -cmp.Compare(a.AtMs, b.AtMs) })
	return out[:min(pushesShown, len(out))]
}
