package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"conclave"
	"conclave/internal/stage"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
)

// Shutdown stops the node without anyone missing it; Run returns nil then. The
// order is article 002's:
//
//  1. ask meta to blacklist this node. It is refused, with the reason, while
//     nobody could take over; then it is asked again until somebody can.
//  2. wait until no slot is led from here, every successor serves, and no slot
//     that is followed from here has lost its leader: this copy may be the last
//     one, and the slot may be granted to this node to be handed on (slot.Drained)
//  3. leave the member list
//  4. stop the feeds, close the listener
//
// It differs where the original skips step 2 in protection mode: slots do not
// move then, and a node that left would take them with it; so it waits, says
// so, and its caller's deadline decides. Without a leader it waits too. When ctx
// ends first the node ends all the same, and both Shutdown and Run return why.
//
// While it is announced that the whole cluster stops (`conclave down`) only step 4
// is taken, also when that arrives while the others are waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	if !s.ran.Load() {
		s.end(nil)
		return nil
	}
	select {
	case <-s.started:
	case <-s.ended:
	}
	// A node that ends by itself meanwhile has nothing left to hand over.
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-s.ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	})
	select {
	case <-s.ended:
		return nil
	default:
	}
	var err error
	switch {
	case s.stopping.InForce():
		s.log.Info("the cluster stops: nothing is handed over")
	case !s.ready.Load() && !s.holdsAny():
		s.log.Info("never registered: there is nothing to hand over")
	default:
		err = stage.Run(ctx, s.log, []stage.Stage{
			{Name: "ask to be drained", Do: s.drain},
			{Name: "hand the slots over", Do: s.handOver},
			{Name: "leave the member list", Do: s.leave},
		})
	}
	s.config.Trace.Claim(trace.Claim{Kind: trace.Emptied, Count: len(s.view.Table().LedBy(s.config.Node)), Flag: err == nil && s.draining.Load(), Err: err})
	s.end(err)
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	return err
}

// errEnded is why a stop is cut short by a crash.
var errEnded = errors.New("the node has ended")

// end makes Run return err.
func (s *Server) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		s.stopErr = err
		close(s.stop)
	}
}

// drain is admission and drain entry in one: meta checks that there is a
// successor before it writes the entry.
func (s *Server) drain(ctx context.Context) error {
	defer s.say(ctx, "waiting for a leader, and for a node that could take over, to drain this one")()
	var refused error
	for {
		changed := s.view.Changed()
		if s.stopping.InForce() {
			return nil
		}
		epoch, err := s.meta.Drain(ctx, "stopping")
		if err == nil {
			s.forbidden = epoch
			break
		}
		if wire.CodeOf(err) != wire.CodeNoSuccessor {
			return cmp.Or(refused, err)
		}
		if refused == nil {
			s.log.Warn("drain refused", "why", err)
		}
		refused = err
		timer := time.NewTimer(time.Second)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		timer.Stop()
	}
	s.draining.Store(true)
	s.poke()
	s.events.Add(wire.Event{Type: "data.draining", Text: "asked meta to move this node's slots"})
	return nil
}

// handOver waits until this node may stop without loss. It judges by no state that
// is older than the drain entry: such a one may show a leader of a slot that is
// followed here as alive, although this copy is the last one.
func (s *Server) handOver(ctx context.Context) error {
	if !s.draining.Load() {
		return nil // the step before has said why
	}
	next := time.NewTicker(5 * time.Second)
	defer next.Stop()
	for {
		changed := s.view.Changed()
		st := s.view.State()
		if !st.Blacklist.Epoch.Less(s.forbidden) && drained(st, s.config.Node.Name) || s.stopping.InForce() {
			return nil
		}
		select {
		case <-changed:
		case <-next.C:
			s.log.Warn("waiting for successors", "led", len(st.Table.LedBy(s.config.Node)), "frozen", st.Freeze.Frozen, "leader lost for", s.meta.LostFor())
		case <-ctx.Done():
			return fmt.Errorf("%d slots are still led from here: %w", len(st.Table.LedBy(s.config.Node)), ctx.Err())
		}
	}
}

// holdsAny says that some slot has a place or a copy here.
func (s *Server) holdsAny() bool {
	reports, _, _, _ := s.report()
	return len(reports) > 0
}

func drained(st wire.State, name string) bool {
	live := make([]conclave.NodeID, 0, 8)
	for _, m := range st.Members.Of(conclave.RoleData) {
		live = append(live, m.Node)
	}
	forbidden := make([]string, 0, 8)
	for _, e := range st.Blacklist.Entries {
		forbidden = append(forbidden, e.Name)
	}
	return slot.Drained(st.Table, name, live, forbidden, st.Replicas)
}

// leave ends the beats first, or the next one would register this node again.
func (s *Server) leave(ctx context.Context) error {
	if s.stopping.InForce() {
		return nil
	}
	s.endMeta()
	select {
	case <-s.metaRan:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.meta.Leave(ctx)
}
