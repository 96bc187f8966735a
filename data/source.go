package data

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// When the source of a hand-over is silent, the other holders (holders.go) and
// then the sessions are asked instead. The sessions are a complete replacement
// only if all of them answer. What a session had stored that is lost by then may
// be with the source alone: the successor's copy ends where its feed broke. So a
// successor does not serve without the answer of a session while the source is a
// member. It asks the source again, follows it again, and takes what it had up to
// its last position (needsSource, askSource; docs/adr/0064).
//
// It does so for a node lease and a session grace at most, as it waits for a
// session that cannot be dialled (unreached.go): two data nodes may be cut off
// from each other for longer, and by then the clients of a lost session have
// registered elsewhere.

// finishAll asks each source to stop, once for all slots that the table has
// just moved from it to this node: a drain costs one request for each batch of
// slots.
func (s *migrations) finishAll() {
	bySource := map[conclave.NodeID][]*migration{}
	for _, m := range s.unsent(finishing) {
		bySource[m.source] = append(bySource[m.source], m)
	}
	for _, source := range sortedNodes(bySource) {
		s.finish(source, bySource[source])
	}
}

// finish sends Finish to one source and posts the result to the loop.
func (s *migrations) finish(source conclave.NodeID, all []*migration) {
	member, listed := s.view.State().Members.Find(source.Name)
	if !listed || member.Node != source {
		for _, m := range all {
			s.askSessions(m, "the source is not on the member list")
		}
		return
	}
	ask := &wirev1.FinishRequest{Successor: wire.NodeOut(s.config.Node)}
	for _, m := range all {
		ask.Slots = append(ask.Slots, &wirev1.FinishSlot{Slot: uint32(m.r.id), LeaderEpoch: wire.EpochOut(m.epoch)})
	}
	deadline := all[0].deadline // one table granted them all, or one round asks again; counted from before the request is sent
	s.tasks.run(func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		s.config.Trace.Claim(trace.Claim{Kind: trace.Finishing, Peer: source, Count: len(all)})
		res, err := s.data(member.Address).Finish(ctx, connect.NewRequest(ask))
		if err == nil && len(res.Msg.GetSlots()) != len(all) {
			err = fmt.Errorf("asked for %d slots, answered for %d", len(all), len(res.Msg.GetSlots()))
		}
		s.tasks.post(func() {
			for i, m := range all {
				if m.deadline != deadline {
					continue // the source has been asked again since
				}
				if err != nil {
					s.finished(m, nil, err)
				} else {
					s.finished(m, res.Msg.GetSlots()[i], nil)
				}
			}
		})
	})
}

// finished handles the source's answer, or the error of the request.
func (s *migrations) finished(m *migration, answer *wirev1.FinishedSlot, err error) {
	if s.running[m.r.id] != m || m.phase != finishing {
		return
	}
	switch {
	case err != nil:
		s.askSessions(m, "the source did not finish: "+err.Error())
	case answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || wire.EpochIn(answer.GetSourceEpoch()) != m.sourceEpoch:
		s.askSessions(m, "the source does not have the copy that this node follows")
		m.source = conclave.NodeID{} // it is not asked again
	default:
		m.phase, m.position, m.counter = applying, answer.GetPosition(), max(m.counter, answer.GetCounter())
		now := time.Now()
		m.marked, m.incomplete = now.Add(wire.FromMs(answer.GetUnconfirmedMs())), now.Add(wire.FromMs(answer.GetIncompleteMs()))
		m.without = nil
		for _, n := range answer.GetPartial() {
			m.without = append(m.without, wire.NodeIn(n))
		}
	}
}

// finishBefore stops serving because a successor has a higher leader epoch, and
// returns the last position; stopped reports whether this node served until now.
func (r *replica) finishBefore(epoch conclave.Epoch, now time.Time) (out *wirev1.FinishedSlot, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_MOVED}
	stopped = r.state == slot.Serving
	if (stopped || r.state == slot.Finished) && r.epoch.Less(epoch) && epoch.Plausible(r.epoch) {
		r.finish()
		out = &wirev1.FinishedSlot{
			Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(r.epoch),
			Position: r.store.Position(), Counter: r.store.Counter(), UnconfirmedMs: wire.Ms(r.store.Marked(now)), IncompleteMs: wire.Ms(r.store.Incomplete(now)),
		}
		for _, n := range sortedNodes(r.partial) {
			out.Partial = append(out.Partial, wire.NodeOut(n))
		}
	}
	return out, stopped
}
