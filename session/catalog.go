package session

import (
	"cmp"
	"context"
	"encoding/json"
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
	"conclave/wire/serve"
)

// catalog lists the services of the cluster, which only the data nodes know: each page
// is put together from those of all slot leaders.
type catalog struct {
	http     *http.Client
	token    func(address string) string
	view     *wire.View
	registry *locked
}

// serviceRow is a service in a list.
type serviceRow struct {
	conclave.DataInfoID
	Version    int64 `json:"version"`
	Publishers int   `json:"publishers"` // registrations
}

func (r serviceRow) key() string { return r.String() }

// Limits of a page.
const (
	catalogRows  = 1000
	catalogWait  = 3 * time.Second       // for which it waits until all slots are served
	catalogPause = 20 * time.Millisecond // between two attempts
)

// page returns the services whose dataId begins with prefix, sorted, after the one with
// a key: limit at most, and whether there are more. A service that has publishers all the
// time is in one of the pages, whatever moves meanwhile.
func (c *catalog) page(ctx context.Context, prefix, after string, limit int) (rows []serviceRow, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	for {
		rows, err = c.ask(ctx, prefix, after, limit+1)
		if err == nil {
			break
		}
		if sleep.For(ctx, catalogPause) != nil {
			return nil, false, wire.Errorf(wire.CodeUnavailable, "the list is not complete at present: %v", err)
		}
	}
	slices.SortFunc(rows, func(a, b serviceRow) int { return cmp.Compare(a.key(), b.key()) })
	rows = slices.CompactFunc(rows, func(a, b serviceRow) bool { return a.key() == b.key() }) // a slot may have moved from one to the other
	return rows[:min(limit, len(rows))], len(rows) > limit, nil
}

// ask asks each slot leader for its part of a page. It fails unless each slot was served by
// the same leader before and after its answer: then the answer has all that is in the slot.
func (c *catalog) ask(ctx context.Context, prefix, after string, limit int) (rows []serviceRow, err error) {
	leaders := slices.Sorted(maps.Keys(with(c.registry, (*registry.Registry).Leaders)))
	answers, served := make([][]serviceRow, len(leaders)), make([]map[int]conclave.Epoch, len(leaders))
	q := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	group, ctx := errgroup.WithContext(ctx)
	for i, address := range leaders {
		group.Go(func() error {
			before, err := c.serving(ctx, address)
			if err == nil {
				err = c.get(ctx, address, "/v1/datums?"+q.Encode(), &answers[i])
			}
			if err == nil {
				served[i], err = c.serving(ctx, address)
			}
			for id, epoch := range served[i] {
				if before[id] != epoch {
					delete(served[i], id)
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for id := range c.view.Table().Slots {
		if !slices.ContainsFunc(served, func(at map[int]conclave.Epoch) bool { _, ok := at[id]; return ok }) {
			return nil, fmt.Errorf("slot %d is moving", id)
		}
	}
	return slices.Concat(answers...), nil
}

// serving returns the slots that a data node serves, with their leader epochs.
func (c *catalog) serving(ctx context.Context, address string) (map[int]conclave.Epoch, error) {
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

// get decodes what a data node answers.
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
	return json.NewDecoder(res.Body).Decode(into)
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
	rows, more, err := s.catalog.page(r.Context(), r.URL.Query().Get("prefix"), page.After, cmp.Or(page.Limit, catalogRows))
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
