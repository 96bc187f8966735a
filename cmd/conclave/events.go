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
		Use: "events", Short: "Show the events of all nodes", Args: want(),
		Long: `Show the events of all nodes, merged by time. A node keeps its newest 2048 events
until its process ends. Ids are per node.`,
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
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new events as they happen")
	return cmd
}

// eventSources returns the addresses of all nodes: those of the local cluster's
// processes, members or not, or those that the metas list.
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

// pastEvents returns the events that all nodes keep, sorted by time. It ignores
// nodes that are down, unless none answers.
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
		return nil, wire.Errorf(wire.CodeUnavailable, "no node answered (%v)", errors.Join(errs...))
	}
	slices.SortStableFunc(merged, func(x, y wire.Event) int {
		if c := x.At.Compare(y.At); c != 0 {
			return c
		}
		return strings.Compare(x.Node, y.Node)
	})
	return merged, nil
}

// followEvents prints each node's events as they arrive until ctx ends. It
// connects again to nodes that were down, and starts at the first event of a
// restarted node.
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
		_ = wire.ReadEvents(ctx, a.http, address, last, true, func(e wire.Event) error { // after any error the stream is opened again
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

// incarnation returns the incarnation of the node at an address, "" if none
// answers.
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
