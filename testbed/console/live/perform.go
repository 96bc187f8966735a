package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"conclave/testbed"
	"conclave/testbed/console"
)

// begin begins an action whose outcome is shown.
func (s *Source) begin(what string, fault bool, do func(context.Context) error) error {
	return s.spawn(func(ctx context.Context) { s.outcome(ctx, what, fault, do) })
}

// spawn runs f in a goroutine that Run joins.
func (s *Source) spawn(f func(ctx context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil || s.ended || s.work.Err() != nil {
		return errors.New("the console is not running")
	}
	ctx := s.work
	s.running.Go(func() { f(ctx) })
	return nil
}

// perform carries out an action, and records it.
func (s *Source) perform(ctx context.Context, a testbed.Action) error {
	began := time.Now()
	err := s.cfg.Cluster.Do(ctx, a)
	at := began
	if s.can.EffectTime != nil && err == nil && !a.EndsFault() {
		at = s.can.EffectTime(ctx, a, began)
	}
	s.record.fault(at, a, err)
	if a.Verb == testbed.Mend && a.Peer == "" && err == nil {
		s.reconnected(a.Node)
	}
	e := console.Event{At: at.UnixMilli(), Node: a.Node, Kind: "fault", Text: a.String()}
	if err != nil {
		e.Kind, e.Text = "fault.failed", a.String()+": "+err.Error()
	} else {
		s.mu.Lock()
		s.active.Note(a)
		if a.Verb == testbed.Kill {
			s.beliefs.ended(at, a.Node)
		}
		s.mu.Unlock()
	}
	s.add(e)
	return err
}

// reconnected notes that the cuts between a node and single others have ended with
// that between it and all others.
func (s *Source) reconnected(node string) {
	s.mu.Lock()
	var ended []testbed.Action
	for _, a := range s.active.List() {
		if undo := a.Undo(); undo.Verb == testbed.Mend && a.Peer != "" && (a.Node == node || a.Peer == node) {
			ended = append(ended, undo)
			s.active.Note(undo)
		}
	}
	s.mu.Unlock()
	for _, undo := range ended {
		s.record.fault(time.Now(), undo, nil)
	}
}

// healWithin limits a healing, which goes on when the console ends.
const healWithin = 15 * time.Second

// healStopped heals what a scenario that was stopped has left. If the console ends, no
// other process knows of it: it is healed before Run returns.
func (s *Source) healStopped() {
	if s.begin("heal all, after the scenario was stopped", false, s.heal) == nil || s.cfg.Ends {
		return
	}
	err := s.heal(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = err
}

// heal ends what was injected here, links first, and starts what is down.
func (s *Source) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healWithin)
	defer cancel()
	s.mu.Lock()
	open := s.active.List()
	s.mu.Unlock()
	order := []testbed.Verb{testbed.Mend, testbed.Resume, testbed.Start, testbed.Allow, testbed.Join}
	seen := s.before()
	if seen == nil {
		return errors.New("nothing is known of the cluster yet")
	}
	var undo []testbed.Action
	for _, a := range open {
		undo = append(undo, a.Undo())
	}
	for _, p := range seen.processes {
		if down := p.State == "killed" || p.State == "exited"; down && p.Role != "client" &&
			!slices.ContainsFunc(undo, func(a testbed.Action) bool { return a.Verb == testbed.Start && a.Node == p.Name }) {
			undo = append(undo, testbed.Action{Verb: testbed.Start, Node: p.Name})
		}
	}
	slices.SortStableFunc(undo, func(a, b testbed.Action) int {
		return cmp.Compare(slices.Index(order, a.Verb), slices.Index(order, b.Verb))
	})
	var errs []error
	for _, a := range undo {
		errs = append(errs, s.perform(ctx, a))
	}
	return errors.Join(errs...)
}
