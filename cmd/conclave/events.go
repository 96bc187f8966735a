package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/testbed/outside"
	"conclave/wire"
)

// eventTypes are the first words of the types, and the types themselves.
var eventTypes = []string{
	"act", "act.forced", "blacklist", "blacklist.added", "blacklist.removed", "config", "config.removed", "config.set", "copy", "copy.differs", "data", "data.draining", "data.started",
	"freeze", "freeze.begun", "freeze.ended", "leader", "leader.elected", "leader.lost", "leader.resigned", "meta", "meta.started",
	"node", "node.evicted", "node.joined", "node.left", "node.lost", "node.refused", "node.suspect",
	"session", "session.clients-gone", "session.cutoff", "session.draining", "session.gone", "session.last", "session.open", "session.stopping",
	"slot", "slot.finished", "slot.partial", "slot.serving", "slot.table", "stop", "stop.announced", "stop.ended", "switch", "switch.set",
}

// eventFilter has the flags that choose events.
type eventFilter struct {
	types, nodes []string
	since        time.Duration
	after        time.Time // the time that since means
}

// wants reports whether an event is to be shown. A type is named with or
// without what follows its first word.
func (f *eventFilter) wants(e wire.Event) bool {
	ofType := len(f.types) == 0 || slices.ContainsFunc(f.types, func(t string) bool { return e.Type == t || strings.HasPrefix(e.Type, t+".") })
	return ofType && (len(f.nodes) == 0 || slices.Contains(f.nodes, e.Node)) && !e.At.Before(f.after)
}

func (a *app) eventsCommand() *cobra.Command {
	var follow, each bool
	var f eventFilter
	cmd := &cobra.Command{
		Use: "events", Short: "Show the events of all nodes", Args: want(),
		Long: `Show the events of all nodes, merged by time. A node keeps its newest 2048 events
until its process ends. Events of one type at one node that follow each other are one
line with their number, as when a node hands over its slots; --each and --json show each.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.since > 0 {
				f.after = time.Now().Add(-f.since)
			}
			if err := f.checkTypes(); err != nil {
				return err
			}
			nodes, known, err := a.eventSources(cmd.Context())
			if err == nil {
				err = f.checkNodes(known)
			}
			if err != nil {
				return err
			}
			out := &eventPrinter{app: a, each: each || a.asJSON}
			past, seen, err := a.pastEvents(cmd.Context(), nodes)
			switch {
			case err != nil && !follow:
				return err
			case err == nil:
				err = out.print(filter(past, f.wants))
			default:
				err = nil // the nodes may come
			}
			if err != nil || !follow {
				return err
			}
			return a.followEvents(cmd.Context(), seen, &f, out)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new events as they happen, after those that are kept")
	cmd.Flags().BoolVar(&each, "each", false, "print each event, also if many of one type follow each other")
	cmd.Flags().StringSliceVar(&f.types, "type", nil, "only these types, or all that begin with such a word: slot, leader.elected (TYPE,...)")
	completeFlag(cmd, "type", eventTypes...)
	cmd.Flags().StringSliceVar(&f.nodes, "node", nil, "only the events of these nodes (NAME,...)")
	cmd.Flags().DurationVar(&f.since, "since", 0, "only events that are not older than this")
	return cmd
}

// checkTypes refuses types of which there are no events.
func (f *eventFilter) checkTypes() error {
	for _, t := range f.types {
		if slices.Contains(eventTypes, t) {
			continue
		}
		word, _, _ := strings.Cut(t, ".")
		allowed := filter(eventTypes, func(s string) bool { return strings.HasPrefix(s, word+".") })
		if len(allowed) == 0 {
			allowed = filter(eventTypes, func(s string) bool { return !strings.Contains(s, ".") })
		}
		return usageError{fmt.Errorf("--type: unknown type %q (want one of %s)", t, strings.Join(allowed, ", "))}
	}
	return nil
}

// checkNodes refuses nodes that are not among those of the cluster. If these are not
// known because no meta leads, it refuses none.
func (f *eventFilter) checkNodes(known []string) error {
	for _, n := range f.nodes {
		if len(known) > 0 && !slices.Contains(known, n) {
			return fmt.Errorf("--node: unknown node %q (want one of %s)", n, strings.Join(known, ", "))
		}
	}
	return nil
}

// eventSources returns the addresses of all nodes: those of the local cluster's
// processes, members or not, or those that the metas list and the metas' own. known
// are the names of the nodes, none if they cannot be listed.
func (a *app) eventSources(ctx context.Context) (out, known []string, err error) {
	if len(a.metas) > 0 {
		if out, err = a.metaAddresses(); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	nodes, err := a.nodeAddresses(ctx, "meta", "data", "session")
	if err != nil && wire.CodeOf(err) != wire.CodeNoLeader {
		return nil, nil, err
	}
	out = slices.Clone(out)
	for _, n := range nodes {
		out, known = append(out, n.address), append(known, n.name)
	}
	slices.Sort(out)
	slices.Sort(known)
	return slices.Compact(out), known, nil
}

// pastEvents returns the events that all nodes keep, sorted by time, and how
// far each node was read. It ignores nodes that do not answer within nodeWait,
// unless none does.
func (a *app) pastEvents(ctx context.Context, nodes []string) ([]wire.Event, []*outside.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	var all sync.WaitGroup
	events, errs, seen := make([][]wire.Event, len(nodes)), make([]error, len(nodes)), make([]*outside.Stream, len(nodes))
	for i, address := range nodes {
		seen[i] = &outside.Stream{Address: address, Within: time.Second}
		all.Go(func() {
			errs[i] = seen[i].Read(ctx, a.http, a.tokenFor(address), false, func(e wire.Event) error {
				events[i] = append(events[i], e)
				return nil
			})
		})
	}
	all.Wait()
	var merged []wire.Event
	var once []*outside.Stream // a node that is known by two addresses is read once
	for i, n := range seen {
		if n.Life == "" || !slices.ContainsFunc(once, func(o *outside.Stream) bool { return o.Life == n.Life }) {
			once, merged = append(once, n), append(merged, events[i]...)
		}
	}
	if len(merged) == 0 && !slices.Contains(errs, nil) {
		return nil, seen, wire.Errorf(wire.CodeUnavailable, "no node answered (%v)", errors.Join(errs...))
	}
	return sortedByTime(merged), once, nil
}

// gatherFor is how long followed events are gathered before they are printed,
// so that those of several nodes are in order and many of one type one line.
const gatherFor = 300 * time.Millisecond

// followEvents prints the nodes' new events until ctx ends. It connects again
// to nodes that were down, and starts at the first event of a restarted node.
func (a *app) followEvents(ctx context.Context, nodes []*outside.Stream, f *eventFilter, out *eventPrinter) error {
	events := make(chan wire.Event)
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			n.Follow(ctx, a.http, a.tokenFor, func(e wire.Event) error {
				select {
				case events <- e:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	defer all.Wait()
	defer cancel()
	var gathered []wire.Event
	tick := time.NewTicker(gatherFor)
	defer tick.Stop()
	for {
		select {
		case e := <-events:
			if f.wants(e) {
				gathered = append(gathered, e)
			}
		case <-tick.C:
			if err := out.print(sortedByTime(gathered)); err != nil {
				return err
			}
			gathered = nil
		case <-ctx.Done():
			return out.print(sortedByTime(gathered))
		}
	}
}

func sortedByTime(events []wire.Event) []wire.Event {
	slices.SortStableFunc(events, func(x, y wire.Event) int { return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Node, y.Node)) })
	return events
}

// eventPrinter prints events, many of a kind as one line.
type eventPrinter struct {
	app   *app
	each  bool
	begun bool // the head of the columns is printed
}

// runLength is how long after the previous one an event may be of the same
// line.
const runLength = 2 * time.Second

// print prints sorted events.
func (p *eventPrinter) print(events []wire.Event) error {
	for len(events) > 0 {
		run, rest := events[:1], events[1:]
		if !p.each {
			run, rest = nextRun(events)
		}
		if err := p.line(run); err != nil {
			return err
		}
		events = rest
	}
	return nil
}

// nextRun returns the first event with those of the same type, node and term
// that follow it closely, and the rest in order. Other events may be between
// them: while one node hands slots over, others take them.
func nextRun(events []wire.Event) (run, rest []wire.Event) {
	last := events[0]
	for i, e := range events {
		switch {
		case e.Type == last.Type && e.Node == last.Node && e.Term == last.Term && e.At.Sub(last.At) <= runLength:
			run, last = append(run, e), e
		case e.At.Sub(last.At) > runLength:
			return run, append(rest, events[i:]...)
		default:
			rest = append(rest, e)
		}
	}
	return run, rest
}

const eventColumns = "%-12s  %-10s %-5s %-20s %s"

// line prints one event, or several of a kind.
func (p *eventPrinter) line(run []wire.Event) error {
	e := run[0]
	return p.app.show(e, func(w io.Writer) {
		term, text := "", e.Text
		if e.Term > 0 {
			term = fmt.Sprint(e.Term)
		}
		if n := len(run); n > 1 {
			text = fmt.Sprintf("%d times in %s: %s ... %s", n, ms(run[n-1].At.Sub(e.At).Milliseconds()), e.Text, run[n-1].Text)
		}
		if !p.begun {
			p.begun = true
			line(w, eventColumns, "TIME", "NODE", "TERM", "TYPE", "TEXT")
		}
		line(w, eventColumns, clock(e.At), e.Node, term, e.Type, text)
	})
}
