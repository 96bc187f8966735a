package meta

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/sleep"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// joinStream is one Join call, as the leader sees it.
type joinStream = connect.BidiStream[wirev1.JoinRequest, wirev1.JoinResponse]

// stream is one member's conversation with the leader.
type stream struct {
	id   conclave.NodeID
	role conclave.Role
	stop context.CancelCauseFunc // ends the conversation
	echo chan uint64             // the newest beat up; cap 1, the reader replaces it
}

func (s *stream) end(why error) { s.stop(why) }

// knockLimit is how long a node may take to say who it is; admitLimit is the same
// before it is a member. It is longer, since a node that is only slow is refused by
// it, and below two beats, after which the node would ask another meta.
const (
	knockLimit = 500 * time.Millisecond
	admitLimit = 1500 * time.Millisecond
)

// linger is how long a stream stays open when the leadership behind it has ended.
// The next leader's announcement ends it from the other side; without the delay
// every node would ask every meta who leads, just while they elect.
const linger = 150 * time.Millisecond

// Join is the stream that every node holds to the leader.
//
// The handler writes; a goroutine of its own reads, because net/http ends a
// blocked read only when the handler has returned. It is joined by Run.
func (s *Server) Join(ctx context.Context, conn *joinStream) error {
	l, err := s.asLeader()
	if err != nil {
		return err
	}
	first, err := conn.Receive()
	if err != nil {
		return err
	}
	request := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(l.ctx, func() { stop(wire.NotLeader("", "")) })()

	st := &stream{
		id: wire.NodeIn(first.GetMember().GetNode()), role: conclave.Role(first.GetMember().GetRole()),
		stop: stop, echo: make(chan uint64, 1),
	}
	if err := l.admit(ctx, st, first); err != nil {
		return err
	}
	defer l.broken(st)
	s.background.Go(func() {
		for {
			m, err := conn.Receive()
			if err != nil {
				stop(err)
				return
			}
			l.hear(st, m)
		}
	})
	err = l.talk(ctx, st, conn, first)
	if l.ctx.Err() != nil {
		_ = sleep.For(request, linger)
	}
	return err
}

// admit judges a first beat: who is this, and may it have the name?
//
//  1. The request itself: a role, a name, an incarnation, an address, the same
//     data center.
//  2. A higher term than ours was seen: stop acting, win a term above it.
//  3. One incarnation per name. A living process at the address on record keeps
//     the name, and the new one is refused with conflict. A dead one is replaced.
//     A silent one is waited for, until its lease has run out.
//  4. Dial back, once per incarnation: who does not answer at its address is not
//     admitted, since data nodes must be able to ask sessions, and sessions and
//     metas data nodes. A member stays one all the same: that the path to it
//     fails for this meta is no reason to take it off. Only a node that was
//     dialled can later be declared dead by a refused dial.
func (l *leader) admit(ctx context.Context, st *stream, first *wirev1.JoinRequest) error {
	m := wire.MemberIn(first.GetMember())
	m.Draining, m.Dialable = false, false // the leader judges
	if err := conclave.ValidateName(m.Node.Name); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "join: %v", err)
	}
	if _, err := conclave.ParseRole(string(m.Role)); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "join: %v", err)
	}
	if m.Node.Incarnation == "" || m.Address == "" {
		return wire.Errorf(wire.CodeBadRequest, "join: %s says no incarnation or no address", m.Node.Name)
	}
	if dc := first.GetDataCenter(); dc != "" && dc != l.s.cfg.DataCenter {
		return wire.Errorf(wire.CodeBadRequest, "join: %s is of data center %q, this cluster of %q", m.Node.Name, dc, l.s.cfg.DataCenter)
	}
	if l.outranked(first.GetHighestTerm()) {
		return wire.Errorf(wire.CodeUnavailable, "term %d is below %d, which %s has seen", l.term.Number, first.GetHighestTerm(), m.Node.Name)
	}
	// A member that this node knew of as a follower need not wait until the stored
	// list was read: after an election nodes follow one round trip after their
	// leader's first word.
	known, _ := l.s.view.State().Members.Find(m.Node.Name)
	returns := known.Node == m.Node && known.Address == m.Address && known.Dialable
	if returns {
		m.Dialable = true
	} else {
		select {
		case <-l.loaded:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		if l.roster.hasLeft(m.Node) {
			return wire.Errorf(wire.CodeUnavailable, "%s has left", m.Node)
		}
		if m.Node.Name == l.s.cfg.Node.Name && m.Node != l.s.cfg.Node {
			return wire.Errorf(wire.CodeConflict, "the name %s is that of the leader at %s", m.Node.Name, l.s.address)
		}
		old, found := l.roster.find(m.Node.Name)
		switch {
		case found && old.Node == m.Node && old.Address == m.Address && old.Dialable:
			m.Dialable = true
		case found && old.Node != m.Node:
			if err := l.mayReplace(ctx, old, m); err != nil {
				return err
			}
		}
		if !m.Dialable && m.Role != conclave.RoleMeta {
			id, err := l.knock(ctx, m.Address, admitLimit)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			m.Dialable = err == nil && id == m.Node
			member := found && old.Node == m.Node && old.Address == m.Address
			switch {
			case m.Dialable:
			case member:
				l.log.Warn("cannot dial a member back: it is evicted by its lease only", "node", m.Node.Name, "address", m.Address, "answered", id.String(), "error", err)
			default:
				return l.refuse(m, id, err)
			}
		}
		fresh, ok := l.roster.admit(m, old.Node, st, time.Now())
		if !ok {
			continue // somebody was faster
		}
		if fresh && !returns && m.Role != conclave.RoleMeta {
			l.s.event("node.joined", l.term.Number, nil, map[string]any{"node": m.Node.Name, "role": m.Role, "incarnation": m.Node.Incarnation, "address": m.Address},
				"%s %s joined at %s", m.Role, m.Node.Name, m.Address)
			l.log.Info("node joined", "node", m.Node.Name, "role", m.Role, "address", m.Address, "dialable", m.Dialable)
		}
		l.hear(st, first)
		l.arranger.wake()
		return nil
	}
}

// refuse answers a node that cannot be dialled back: another node, or none,
// answers at its address. It is logged once for each incarnation and address;
// the node goes on trying.
func (l *leader) refuse(m wire.Member, answered conclave.NodeID, err error) error {
	why := fmt.Sprintf("%s answers there", answered)
	if err != nil {
		why = err.Error()
	}
	if l.roster.refused(m) {
		l.log.Warn("node refused: it cannot be dialled at its advertised address", "node", m.Node.Name, "role", m.Role, "address", m.Address, "why", why)
		l.s.event("node.refused", l.term.Number, nil, map[string]any{"node": m.Node.Name, "role": m.Role, "incarnation": m.Node.Incarnation, "address": m.Address, "why": why},
			"%s %s was refused: it cannot be dialled at %s", m.Role, m.Node.Name, m.Address)
	}
	return wire.Errorf(wire.CodeUnavailable, "join: %s advertises %s, where %s cannot reach it: %s", m.Node.Name, m.Address, l.s.cfg.Node.Name, why)
}

// mayReplace says whether the name of old may go to a new incarnation.
func (l *leader) mayReplace(ctx context.Context, old, m wire.Member) error {
	id, err := l.knock(ctx, old.Address, knockLimit)
	switch {
	case err == nil && id == old.Node:
		return wire.Errorf(wire.CodeConflict, "the name %s belongs to a living %s process at %s", m.Node.Name, old.Role, old.Address)
	case err == nil, wire.Refused(err):
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if old.Role == conclave.RoleMeta || !l.roster.holdsLease(old.Node) {
		return nil
	}
	return wire.Errorf(wire.CodeUnavailable, "%s at %s has the name %s and does not answer: its lease is waited for", old.Role, old.Address, m.Node.Name)
}

// hear takes one beat up.
func (l *leader) hear(st *stream, m *wirev1.JoinRequest) {
	at := time.Now()
	if l.outranked(m.GetHighestTerm()) {
		return
	}
	news, ok := l.roster.beat(st, m, at)
	if !ok {
		st.end(wire.Errorf(wire.CodeUnavailable, "%s is not on the list by this stream", st.id.Name))
		return
	}
	table := wire.EpochIn(m.GetHave().GetTable())
	if l.warm.Load() && table.Term >= l.term.Number && l.s.view.TableEpoch().Less(table) {
		// A table of ours that we have never written: somebody led this very term
		// in another life of the database. The next term's warm-up adopts it.
		l.outranked(table.Term + 1)
		return
	}
	l.evidence.see(table, m.GetMember().GetAddress())
	l.spread.held(l.roster.behind, at)
	select { // only the newest is echoed
	case <-st.echo:
	default:
	}
	st.echo <- m.GetBeat()
	if news {
		l.arranger.wake()
	}
}

// outranked tells the elector of a term above ours.
func (l *leader) outranked(highest uint64) bool {
	if highest <= l.term.Number {
		return false
	}
	l.s.elector.Seen(highest)
	return true
}

// talk sends what the member lacks, and the beats, until the stream ends. While
// the leadership is suspended no state is sent, only that this node is there.
func (l *leader) talk(ctx context.Context, st *stream, conn *joinStream, first *wirev1.JoinRequest) error {
	have := first.GetHave()
	var sent slot.Table // what the receiver has from this stream; zero: nothing yet
	var echo uint64
	keepAlive := time.NewTimer(l.s.cfg.Beat)
	defer keepAlive.Stop()
	for {
		rung := l.bell.listen()
		select {
		case echo = <-st.echo:
		default:
		}
		state := l.s.view.State()
		out := &wirev1.JoinResponse{
			Term: l.term.Number, Leader: wire.NodeOut(l.s.cfg.Node), Address: l.s.address,
			Beat: l.beat.Load(), LeaseMs: wire.Ms(l.s.cfg.Lease), NodeLeaseMs: wire.Ms(l.s.cfg.NodeLease),
			Registered: st.role == conclave.RoleMeta || state.Members.Has(st.id), Metas: l.metas(), Echo: echo,
		}
		_, leading := l.s.elector.Leading()
		if leading {
			out.State = wire.StateOut(state, have)
			if out.State.Table != nil && !sent.Epoch.IsZero() && len(sent.Slots) == len(state.Table.Slots) {
				out.State.Table = wire.DeltaOut(sent.Epoch, state.Table, slot.Diff(sent, state.Table).Slots, state.Replicas)
			}
		}
		if err := conn.Send(out); err != nil {
			return err
		}
		pause := l.s.cfg.Beat + l.s.cfg.Beat/8 // beats ring; this is for when there are none
		if leading {
			if !state.Table.Epoch.Less(wire.EpochIn(have.GetTable())) {
				sent = state.Table
			}
			have = above(have, state)
		} else {
			pause = l.s.cfg.Beat / 20
		}
		keepAlive.Reset(pause)
		select {
		case <-rung:
		case echo = <-st.echo: // each beat up is answered: the member's beat may be faster than ours
		case <-keepAlive.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// above is what the receiver holds once it has got st: never less than before.
func above(have *wirev1.Epochs, st wire.State) *wirev1.Epochs {
	higher := func(a *wirev1.Epoch, b conclave.Epoch) *wirev1.Epoch {
		if wire.EpochIn(a).Less(b) {
			return wire.EpochOut(b)
		}
		return a
	}
	return &wirev1.Epochs{
		Table: higher(have.GetTable(), st.Table.Epoch), Members: higher(have.GetMembers(), st.Members.Epoch),
		Blacklist: higher(have.GetBlacklist(), st.Blacklist.Epoch), Switches: higher(have.GetSwitches(), st.Switches.Epoch),
		Freeze: higher(have.GetFreeze(), st.Freeze.Epoch),
	}
}

// broken notes the end of a stream. A session or data node without another one
// is suspect, and is looked at.
func (l *leader) broken(st *stream) {
	m, suspect := l.roster.broken(st)
	if !suspect || l.ctx.Err() != nil {
		return
	}
	l.s.event("node.suspect", l.term.Number, nil, map[string]any{"node": m.Node.Name, "role": m.Role}, "the stream of %s %s broke", m.Role, m.Node.Name)
	l.helpers.Go(func() { l.examine(m) })
}

// examine looks at a suspect. Its lease goes on; it is evicted before only on
// evidence: it was dialable, and its address refuses twice, 100 ms apart, or
// another incarnation of it answers there. Silence, or a stranger at the
// address, proves nothing; a name that is gone proves something only after a
// refusal.
func (l *leader) examine(m wire.Member) {
	refused := 0
	for try := 0; try < 4 && l.roster.isSuspect(m.Node); try++ {
		id, err := l.knock(l.ctx, m.Address, knockLimit)
		switch {
		case err == nil && id.Name == m.Node.Name && id != m.Node:
			l.evict(m, "another incarnation answers at its address")
			return
		case err == nil:
			return // it lives, and will join again
		case wire.Refused(err), refused > 0 && wire.Unnamed(err):
			refused++
		}
		if refused == 2 && m.Dialable {
			l.evict(m, "its address refused twice")
			return
		}
		if sleep.For(l.ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

func (l *leader) evict(m wire.Member, why string) {
	if !l.roster.evict(m.Node, time.Now()) {
		return
	}
	l.s.event("node.evicted", l.term.Number, nil, map[string]any{"node": m.Node.Name, "role": m.Role, "why": why}, "%s %s was evicted: %s", m.Role, m.Node.Name, why)
	l.log.Info("node evicted", "node", m.Node.Name, "role", m.Role, "why", why)
	l.arranger.wake()
}

// knock asks who answers at an address.
func (l *leader) knock(ctx context.Context, address string, limit time.Duration) (conclave.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id, _, err := l.s.peers.Knock(ctx, address)
	return id, err
}
