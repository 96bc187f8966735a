package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave"
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// catalog lists the services of the cluster, which only the data nodes know: each page
// is merged from the answers of all slot leaders.
type catalog struct {
	http     *http.Client
	token    func(address string) string
	view     *wire.View
	registry *locked
	listings *admit.Budget // pages that are being merged, by host
}

// serviceRow is a service in a list.
type serviceRow struct {
	conclave.DataInfoID
	Version    int64 `json:"version"`
	Publishers int   `json:"publishers"` // registrations

	Values     []string `json:"values,omitempty"` // if they were asked for
	MoreValues int      `json:"moreValues,omitempty"`
}

func (r serviceRow) key() string { return r.String() }

// Limits of a page.
const (
	catalogRows    = 1000
	catalogBytes   = 64 << 20               // of a data node's part of a page
	catalogAtOnce  = 4                      // pages that are merged at a time
	catalogEach    = 2                      // of them for one host
	catalogWait    = 5 * time.Second        // how long one waits until all slots are served
	catalogAnswer  = time.Second            // how long it waits for the slots of one data node
	catalogPause   = 250 * time.Millisecond // after the first attempt; doubled after each other one
	catalogLongest = time.Second            // the longest pause
)

// page returns at most limit of the services whose dataId begins with prefix, sorted,
// from the first one after a key, and whether there are more. A service that has publishers
// all the time is in one of the pages, also while slots move.
func (c *catalog) page(ctx context.Context, host, prefix, after string, limit int, values bool) (rows []serviceRow, more bool, err error) {
	if !c.listings.Try(host, 1) {
		return nil, false, wire.Errorf(wire.CodeUnavailable, "%d lists are being merged, or %d for this address, which is the limit", catalogAtOnce, catalogEach)
	}
	defer c.listings.Release(host, 1)
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	for pause := time.Duration(0); ; {
		rows, err = c.ask(ctx, prefix, after, limit+1, values)
		if err == nil {
			break
		}
		pause = sleep.Longer(pause, catalogPause, catalogLongest)
		if sleep.For(ctx, pause) != nil {
			return nil, false, wire.Errorf(wire.CodeUnavailable, "the list is not complete at present: %v", err)
		}
	}
	slices.SortFunc(rows, func(a, b serviceRow) int { return cmp.Compare(a.key(), b.key()) })
	rows = slices.CompactFunc(rows, func(a, b serviceRow) bool { return a.key() == b.key() }) // a slot may have moved from one to the other
	return rows[:min(limit, len(rows))], len(rows) > limit, nil
}

// ask asks each slot leader for its part of a page. It fails unless each slot was served by
// the same leader before and after its answer, which then has all services of the slot.
// While a slot is not served it asks for no names: data nodes are taking slots over then.
func (c *catalog) ask(ctx context.Context, prefix, after string, limit int, values bool) (rows []serviceRow, err error) {
	leaders := slices.Sorted(maps.Keys(with(c.registry, (*registry.Registry).Leaders)))
	before, err := askAll(ctx, leaders, c.serving)
	if err == nil {
		err = c.complete(before)
	}
	if err != nil {
		return nil, err
	}
	q := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}, "values": {strconv.FormatBool(values)}}
	answers, err := askAll(ctx, leaders, func(ctx context.Context, address string) (rows []serviceRow, err error) {
		err = c.get(ctx, address, "/v1/datums?"+q.Encode(), &rows)
		return rows, err
	})
	if err != nil {
		return nil, err
	}
	served, err := askAll(ctx, leaders, c.serving)
	if err != nil {
		return nil, err
	}
	for i, slots := range served {
		maps.DeleteFunc(slots, func(id int, epoch conclave.Epoch) bool { return before[i][id] != epoch })
	}
	return slices.Concat(answers...), c.complete(served)
}

// askAll asks all data nodes at the same time, and returns their answers in the order of
// the addresses.
func askAll[T any](ctx context.Context, addresses []string, ask func(ctx context.Context, address string) (T, error)) ([]T, error) {
	out := make([]T, len(addresses))
	group, ctx := errgroup.WithContext(ctx)
	for i, address := range addresses {
		group.Go(func() (err error) {
			out[i], err = ask(ctx, address)
			return err
		})
	}
	return out, group.Wait()
}

// complete returns an error that names a slot that is not served, or nil.
func (c *catalog) complete(served []map[int]conclave.Epoch) error {
	for id := range c.view.Table().Slots {
		if !slices.ContainsFunc(served, func(at map[int]conclave.Epoch) bool { _, ok := at[id]; return ok }) {
			return fmt.Errorf("slot %d is moving", id)
		}
	}
	return nil
}

// serving returns the slots that a data node serves, with their leader epochs.
func (c *catalog) serving(ctx context.Context, address string) (map[int]conclave.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogAnswer)
	defer cancel()
	var answer struct {
		Slots []struct {
			ID          int
			State       string
			LeaderEpoch conclave.Epoch
		}
	}
	if err := c.get(ctx, address, "/v1/slots", &answer); err != nil {
		return nil, err
	}
	out := map[int]conclave.Epoch{}
	for _, s := range answer.Slots {
		if slot.ReportState(s.State) == slot.Serving {
			out[s.ID] = s.LeaderEpoch
		}
	}
	return out, nil
}

// get decodes the answer of a data node to a request.
func (c *catalog) get(ctx context.Context, address, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	wire.SetToken(req.Header, c.token(address))
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, res.Status)
	}
	body := http.MaxBytesReader(nil, res.Body, catalogBytes)
	if err := json.NewDecoder(body).Decode(into); err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			return wire.Errorf(wire.CodeTooLarge, "the list of %s is too large", address)
		}
		return err
	}
	return nil
}

// serviceList answers a request for a list.
type serviceList struct {
	Services []serviceRow `json:"services"`
	Next     string       `json:"next,omitempty"` // the path of the next page
}

// listServices answers with a page of the services that begin with ?prefix=.
func (s *services) listServices(w http.ResponseWriter, r *http.Request) error {
	page, err := serve.PageOf(r)
	if err != nil {
		return err
	}
	if page.Limit > catalogRows {
		return wire.Errorf(wire.CodeBadRequest, "limit %d: want 1 to %d", page.Limit, catalogRows)
	}
	rows, more, err := s.catalog.page(r.Context(), serve.HostOf(r.RemoteAddr), r.URL.Query().Get("prefix"), page.After, cmp.Or(page.Limit, catalogRows), false)
	if err != nil {
		return err
	}
	out := serviceList{Services: rows}
	if rows == nil {
		out.Services = []serviceRow{}
	}
	if more {
		key := rows[len(rows)-1].key()
		w.Header().Set("Link", serve.NextPage(r, key))
		q := r.URL.Query()
		q.Set("after", key)
		out.Next = r.URL.Path + "?" + q.Encode()
	}
	serve.WriteJSON(w, http.StatusOK, out)
	return nil
}
