package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/outside"
	"conclave/wire"
)

const (
	lookEvery = 250 * time.Millisecond
	lookPause = 200 * time.Millisecond // between two looks, and so between two messages to the viewers, at least
	tailEvery = 100 * time.Millisecond
	termsKept = 200
)

// Run shows the cluster until ctx ends. It fails if what a scenario has left could
// not be healed.
func (s *Source) Run(ctx context.Context, hub *console.Hub) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.work = ctx
	s.mu.Unlock()
	var all sync.WaitGroup
	defer func() {
		cancel()
		s.mu.Lock()
		s.ended = true // no action begins any more
		s.mu.Unlock()
		all.Wait()
		s.running.Wait()
		err = s.left
	}()
	seen := s.first(ctx)
	if seen == nil {
		return nil
	}
	s.record.mu.Lock()
	s.record.size = size(seen, s.cfg.Settings)
	s.record.mu.Unlock()
	if s.cfg.Cluster != nil {
		all.Go(func() { s.record.run(ctx) })
		all.Go(func() { s.seconds(ctx) })
	}
	if s.cfg.Traces != "" {
		all.Go(func() { s.tail(ctx) })
	}
	moves, followed := console.Moves{}, map[string]bool{"": true}
	for {
		began := time.Now()
		for _, p := range seen.processes {
			if !followed[p.HTTP] {
				followed[p.HTTP] = true
				events := &outside.Stream{Address: p.HTTP, Within: askLimit}
				all.Go(func() { events.Follow(ctx, s.cfg.HTTP, s.cfg.TokenFor, s.event) })
			}
		}
		state, events := s.state(seen, moves)
		hub.Show(state, events...)
		select {
		case <-ctx.Done():
			return nil
		case <-s.again.C():
		case <-time.After(lookEvery - time.Since(began)):
		}
		if sleep.For(ctx, lookPause-time.Since(began)) != nil {
			return nil
		}
		next, err := s.looker.look(ctx, seen)
		if err == nil {
			seen = next
		}
	}
}

// first looks until the processes are known, and returns nil if ctx ends before.
func (s *Source) first(ctx context.Context) *sight {
	for {
		seen, err := s.looker.look(ctx, nil)
		if err == nil && len(seen.processes) > 0 {
			return seen
		}
		if sleep.For(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// seconds ends each second of the meter.
func (s *Source) seconds(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.meter.second(now, s.now().missing)
		case <-ctx.Done():
			return
		}
	}
}

// tail reads the nodes' trace files.
func (s *Source) tail(ctx context.Context) {
	files := newTail(s.cfg.Traces)
	defer files.close()
	for sleep.For(ctx, tailEvery) == nil {
		if s.cfg.Cluster != nil && s.record.current() == nil {
			continue // the first history begins in a moment
		}
		began := time.Now()
		all, err := files.read(func(at time.Time, c trace.Claim) {
			s.record.event(at, c)
			s.believe(at, c)
		})
		s.record.took(began, all, err)
	}
}

// Claim takes an event of a node at the moment at which it happens (Config.Aside).
func (s *Source) Claim(c trace.Claim) {
	now := time.Now()
	s.record.event(now, c)
	s.believe(now, c)
}

// believe notes what a claim says of who trusts itself to lead. Of a term whose beginning
// is not known nothing is shown.
func (s *Source) believe(at time.Time, c trace.Claim) {
	switch c.Kind {
	case trace.Led, trace.Extended, trace.Left:
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Kind == trace.Left:
		s.beliefs.Left(c.Node.Name, c.Term, at.UnixMilli())
	case c.Kind == trace.Led || s.beliefs.Of(c.Node.Name, c.Term).Term != 0:
		s.beliefs.Trusts(c.Node.Name, c.Term, at.UnixMilli(), c.Until.UnixMilli())
	}
}

// event takes an event of a node; it does not fail.
func (s *Source) event(e wire.Event) error {
	shown := console.Event{At: e.At.UnixMilli(), Node: e.Node, Kind: e.Type, Term: e.Term, Text: e.Text}
	if n, ok := e.Data["slot"].(float64); ok {
		id := int(n)
		shown.Slot = &id
	}
	s.add(shown)
	return nil
}

// state makes the state of a look, and takes the events that are pending. moves
// has the last moves of each slot.
func (s *Source) state(seen *sight, moves console.Moves) (console.State, []console.Event) {
	now := snapshot(seen)
	if s.cfg.Cluster != nil {
		s.record.look(now)
	}
	if before := s.before(); before != nil {
		moves.Note(seen.at.UnixMilli(), outside.Table(before.slots), now.Table)
	}
	table := console.Slots(now.Table, moves)
	out := console.State{
		Mode: "live", Title: s.cfg.Title, Why: s.cfg.Aside != nil, Now: seen.at.UnixMilli(), Leader: seen.leader.Leader, Term: seen.leader.Term, Epoch: seen.slots.Epoch.String(),
		Nodes: nodes(seen, table, s.cfg.Settings.Lease), Clients: map[string]console.Client{}, Links: map[string]console.Link{}, Terms: map[string]console.Term{},
		Slots: table, Offers: s.offers(), Scenario: s.scenarios(),
	}
	if seen.slots.Protected {
		out.Protected = seen.slots.Reason
	}
	for session, all := range seen.clients {
		for i, c := range all {
			out.Clients[fmt.Sprint(session, " ", c.Name, " ", i)] = c
		}
	}
	for _, e := range seen.elections[:min(termsKept, len(seen.elections))] {
		out.Terms[strconv.FormatUint(e.Term, 10)] = console.Term{
			Term: e.Term, Owner: e.Owner, Previous: e.Previous, Cause: e.Cause, LeaderlessMs: e.LeaderlessMs, At: e.At.UnixMilli(),
		}
	}
	if s.cfg.Cluster != nil {
		s.record.show(&out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.active.List() {
		if a.Verb == testbed.Cut || a.Verb == testbed.CutOne || a.Verb == testbed.Slow {
			peer := cmp.Or(a.Peer, "all others")
			out.Links[a.Node+" "+peer] = console.Link{A: a.Node, B: peer, What: string(a.Verb)}
		}
	}
	for name, leads := range seen.believes {
		if leads && !s.record.traced {
			s.beliefs.Trusts(name, seen.leader.Term, out.Now, out.Now+time.Second.Milliseconds())
		}
	}
	for name, n := range out.Nodes {
		if n.State == "killed" || n.State == "exited" {
			s.beliefs.Left(name, 0, out.Now)
		}
	}
	out.Believed = s.beliefs.At(out.Now)
	out.Outcomes, out.Play = maps.Clone(s.outcomes), s.play
	s.status = statusOf(seen, now, out)
	s.seen = seen
	events := s.pending
	s.pending = nil
	slices.SortStableFunc(events, func(a, b console.Event) int { return cmp.Compare(a.At, b.At) })
	return out, events
}
