package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
	"conclave/wire"
)

func (a *app) eventsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "Tell what happened, at all nodes", Args: want(),
		Long: `Tells what happened at all nodes, merged by time. A node remembers its newest 2048
events, and forgets them when its process ends. An id counts within its node.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := a.eventSources(cmd.Context())
			if err != nil {
				return err
			}
			if follow {
				return a.followEvents(cmd.Context(), nodes)
			}
			events, err := a.pastEvents(cmd.Context(), nodes)
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := a.printEvent(e); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	return cmd
}

// eventSources are the addresses of all nodes: the local cluster's, whether the
// cluster knows them or not, or those that the metas name.
func (a *app) eventSources(ctx context.Context) ([]string, error) {
	if len(a.metas) > 0 {
		metas, err := a.metaAddresses()
		if err != nil {
			return nil, err
		}
		sources := slices.Clone(metas)
		ctx, cancel := context.WithTimeout(ctx, requestWait)
		defer cancel()
		nodes, err := a.adminAt(metas).Nodes(ctx, "")
		for _, n := range nodes {
			sources = append(sources, n.Address)
		}
		slices.Sort(sources)
		if code := wire.CodeOf(err); err != nil && code != wire.CodeNoLeader {
			return nil, err
		}
		return slices.Compact(sources), nil
	}
	h, err := a.local()
	if err != nil {
		return nil, err
	}
	return localNodes(ctx, h)
}

func localNodes(ctx context.Context, h *supervisor.Handle) ([]string, error) {
	var out []string
	for _, role := range []string{"meta", "data", "session"} {
		addresses, err := h.Addresses(role)
		if err != nil {
			return nil, err
		}
		out = append(out, addresses...)
	}
	return out, ctx.Err()
}

// pastEvents gathers what all nodes remember, in the order of time. A node that
// is down remembers nothing; no node at all is an error.
func (a *app) pastEvents(ctx context.Context, nodes []string) ([]wire.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	var all sync.WaitGroup
	events, errs := make([][]wire.Event, len(nodes)), make([]error, len(nodes))
	for i, address := range nodes {
		all.Go(func() {
			errs[i] = wire.ReadEvents(ctx, a.http, address, 0, false, func(e wire.Event) error {
				events[i] = append(events[i], e)
				return nil
			})
		})
	}
	all.Wait()
	merged := slices.Concat(events...)
	if len(merged) == 0 && !slices.Contains(errs, nil) {
		return nil, wire.Errorf(wire.CodeUnavailable, "no node answers (%v)", errors.Join(errs...))
	}
	slices.SortStableFunc(merged, func(x, y wire.Event) int {
		if c := x.At.Compare(y.At); c != 0 {
			return c
		}
		return strings.Compare(x.Node, y.Node)
	})
	return merged, nil
}

// followEvents prints each node's events as they come, until ctx ends. A node
// that is down is asked again; one that was started again begins anew.
func (a *app) followEvents(ctx context.Context, nodes []string) error {
	events := make(chan wire.Event)
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, address := range nodes {
		all.Go(func() { a.followNode(ctx, address, events) })
	}
	defer all.Wait()
	defer cancel()
	for {
		select {
		case e := <-events:
			if err := a.printEvent(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *app) followNode(ctx context.Context, address string, events chan<- wire.Event) {
	var last uint64
	life := ""
	for ctx.Err() == nil {
		if now := a.incarnation(ctx, address); now != life && now != "" {
			life, last = now, 0
		}
		_ = wire.ReadEvents(ctx, a.http, address, last, true, func(e wire.Event) error { // however it broke, it is opened again
			last = e.ID
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// incarnation is the life of the node that answers at an address, "" when none does.
func (a *app) incarnation(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return ""
	}
	res, err := a.http.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var health struct {
		Incarnation string `json:"incarnation"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&health) != nil {
		return ""
	}
	return health.Incarnation
}

func (a *app) printEvent(e wire.Event) error {
	return a.show(e, func(w io.Writer) {
		term := ""
		if e.Term > 0 {
			term = fmt.Sprintf("term %d", e.Term)
		}
		fmt.Fprintf(w, "%s  %-10s %-8s %-20s %s\n", clock(e.At), e.Node, term, e.Type, e.Text)
	})
}
