package meta

import (
	"context"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/internal/contain"
	"conclave/internal/sleep"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// joinStream is one Join call on the leader's side.
type joinStream = connect.BidiStream[wirev1.JoinRequest, wirev1.JoinResponse]

// identifyTimeout is how long a node may take to answer with its identity.
// admitTimeout is the same for a node that is not a member yet: longer, because a
// node that is only slow must not be refused, but less than the two beats after
// which it tries another meta.
const (
	identifyTimeout = 500 * time.Millisecond
	admitTimeout    = 1500 * time.Millisecond
)

// streamLinger is how long a stream stays open after its leadership has ended.
// The next leader's announcement ends it from the other side; without the delay
// every node would ask every meta for the leader during the election.
const streamLinger = 150 * time.Millisecond

// joins holds the leader's side of the streams.
type joins struct {
	*tenure
	deltas deltas
}

// serve holds one stream until it ends.
//
// The caller writes. A separate goroutine reads, because net/http ends a
// blocked read only after the handler has returned; Run joins it.
func (j *joins) serve(ctx context.Context, conn *joinStream) error {
	first, err := conn.Receive()
	if err != nil {
		return err
	}
	request := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(j.ctx, func() { stop(wire.NotLeader("", "")) })()

	st := &stream{
		id: wire.NodeIn(first.GetMember().GetNode()), role: conclave.Role(first.GetMember().GetRole()),
		stop: stop, echo: make(chan uint64, 1),
	}
	if err := j.admit(ctx, st, first); err != nil {
		return err
	}
	defer j.streamEnded(st)
	j.background.Go(func() {
		contain.Run(j.log, stop, func() {
			for {
				m, err := conn.Receive()
				if err != nil {
					stop(err)
					return
				}
				j.handleBeat(st, m)
			}
		})
	})
	err = j.sendUpdates(ctx, st, conn, first)
	if j.ctx.Err() != nil {
		_ = sleep.For(request, streamLinger)
	}
	return err
}

// admit checks a first beat and admits the node if it may have its name:
//
//  1. The request must be complete: a role, a name, an incarnation, an address,
//     the same data center.
//  2. If the node has seen a higher term, this leader stops acting and competes
//     for a term above it.
//  3. A name has one incarnation. A living process at the recorded address keeps
//     the name, and the new one is refused with a conflict. A dead one is
//     replaced. A silent one keeps the name until its lease has expired.
//  4. The leader dials the node back, once per incarnation. A node that does not
//     answer at its address is not admitted, since data nodes must be able to
//     reach sessions, and sessions and metas data nodes. A node that is a member
//     already stays one: that this meta cannot reach it is no reason to remove
//     it. Only a node that was dialed before can later be declared dead by a
//     refused dial.
func (j *joins) admit(ctx context.Context, st *stream, first *wirev1.JoinRequest) error {
	m := wire.MemberIn(first.GetMember())
	m.Draining, m.Dialable = false, false // set by the leader
	if err := j.check(m, first); err != nil {
		return err
	}
	// A member that this node knew as a follower need not wait until the stored
	// list has been read: after an election nodes follow one round trip after
	// the announcement.
	known, _ := j.view.State().Members.Find(m.Node.Name)
	returns := known.Node == m.Node && known.Address == m.Address && known.Dialable
	if returns {
		m.Dialable = true
	} else {
		select {
		case <-j.loaded:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		if j.roster.hasLeft(m.Node) {
			return wire.Errorf(wire.CodeUnavailable, "%s has left", m.Node)
		}
		if m.Node.Name == j.config.Node.Name && m.Node != j.config.Node {
			return wire.Errorf(wire.CodeConflict, "the name %s belongs to the leader at %s", m.Node.Name, j.address)
		}
		old, found := j.roster.find(m.Node.Name)
		switch {
		case found && old.Node == m.Node && old.Address == m.Address && old.Dialable:
			m.Dialable = true
		case found && old.Node != m.Node:
			if err := j.mayReplace(ctx, old, m); err != nil {
				return err
			}
		}
		if !m.Dialable && m.Role != conclave.RoleMeta {
			var err error
			if m.Dialable, err = j.dialBack(ctx, m, found && old.Node == m.Node && old.Address == m.Address); err != nil {
				return err
			}
		}
		fresh, ok := j.roster.admit(m, old.Node, st, time.Now())
		if !ok {
			continue // another process registered under the name meanwhile
		}
		if fresh && !returns && m.Role != conclave.RoleMeta {
			j.event(hclog.Info, "node.joined", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role, "incarnation": m.Node.Incarnation, "address": m.Address, "dialable": m.Dialable},
				"%s %s joined at %s", m.Role, m.Node.Name, m.Address)
		}
		j.handleBeat(st, first)
		j.changed.Set()
		return nil
	}
}

// check is rules 1 and 2 of admit.
func (j *joins) check(m wire.Member, first *wirev1.JoinRequest) error {
	if err := conclave.ValidateName(m.Node.Name); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "join: %v", err)
	}
	if _, err := conclave.ParseRole(string(m.Role)); err != nil {
		return wire.Errorf(wire.CodeBadRequest, "join: %v", err)
	}
	if m.Node.Incarnation == "" || m.Address == "" {
		return wire.Errorf(wire.CodeBadRequest, "join: %s sent no incarnation or no address", m.Node.Name)
	}
	if dc := first.GetDataCenter(); dc != "" && dc != j.config.DataCenter {
		return wire.Errorf(wire.CodeBadRequest, "join: %s belongs to data center %q, this cluster to %q", m.Node.Name, dc, j.config.DataCenter)
	}
	if j.outranked(first.GetHighestTerm()) {
		return wire.Errorf(wire.CodeUnavailable, "term %d is below %d, which %s has seen", j.term.Number, first.GetHighestTerm(), m.Node.Name)
	}
	return nil
}

// dialBack is rule 4 of admit. member reports whether the node is a member already.
func (j *joins) dialBack(ctx context.Context, m wire.Member, member bool) (dialable bool, err error) {
	id, err := j.identify(ctx, m.Address, admitTimeout)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err == nil && id == m.Node:
		return true, nil
	case !member:
		return false, j.refuse(m, id, err)
	}
	j.log.Warn("cannot dial a member back: it is removed only when its lease expires", "node", m.Node.Name, "address", m.Address, "answered", id.String(), "error", err)
	return false, nil
}

// refuse returns the refusal of a node that cannot be dialed back: another node
// answers at its address, or none does. It is logged once for each incarnation
// and address; the node keeps trying.
func (j *joins) refuse(m wire.Member, answered conclave.NodeID, err error) error {
	why := fmt.Sprintf("%s answers there", answered)
	if err != nil {
		why = err.Error()
	}
	if j.roster.refused(m) {
		j.event(hclog.Warn, "node.refused", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role, "incarnation": m.Node.Incarnation, "address": m.Address, "why": why},
			"%s %s was refused: it cannot be dialed at %s", m.Role, m.Node.Name, m.Address)
	}
	return wire.Errorf(wire.CodeUnavailable, "join: %s advertises %s, where %s cannot reach it: %s", m.Node.Name, m.Address, j.config.Node.Name, why)
}

// mayReplace returns nil if the name of old may go to the new incarnation m,
// otherwise the refusal.
func (j *joins) mayReplace(ctx context.Context, old, m wire.Member) error {
	id, err := j.identify(ctx, old.Address, identifyTimeout)
	switch {
	case err == nil && id == old.Node:
		return wire.Errorf(wire.CodeConflict, "the name %s belongs to a living %s process at %s", m.Node.Name, old.Role, old.Address)
	case err == nil, wire.Refused(err):
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if old.Role == conclave.RoleMeta || !j.roster.holdsLease(old.Node) {
		return nil
	}
	return wire.Errorf(wire.CodeUnavailable, "%s at %s has the name %s and does not answer: it keeps the name until its lease expires", old.Role, old.Address, m.Node.Name)
}

// handleBeat processes one beat from a member.
func (j *joins) handleBeat(st *stream, m *wirev1.JoinRequest) {
	at := time.Now()
	if j.outranked(m.GetHighestTerm()) {
		return
	}
	news, ok := j.roster.beat(st, m, at)
	if !ok {
		st.stop(wire.Errorf(wire.CodeUnavailable, "%s is not registered through this stream", st.id.Name))
		return
	}
	table := wire.EpochIn(m.GetHave().GetTable())
	if j.warm.Load() && table.Term >= j.term.Number && j.view.TableEpoch().Less(table) {
		// A table of this term that this leader has not written: another node
		// led the same term before the database was reset. The next term's
		// warm-up adopts it.
		j.outranked(table.Term + 1)
		return
	}
	j.evidence.see(table, m.GetMember().GetAddress())
	j.propagation.held(j.roster.behind, at)
	select { // only the newest is echoed
	case <-st.echo:
	default:
	}
	st.echo <- m.GetBeat()
	if news {
		j.changed.Set()
	}
}

// sendUpdates sends the member what it lacks, and the beats, until the stream
// ends. While the leadership is suspended it sends no state, only that this
// node is there.
func (j *joins) sendUpdates(ctx context.Context, st *stream, conn *joinStream, first *wirev1.JoinRequest) error {
	have := first.GetHave()
	var sent slot.Table // the table that was sent on this stream; zero: none yet
	var echo uint64
	keepAlive := time.NewTimer(j.config.Beat)
	defer keepAlive.Stop()
	for {
		updated := j.updates.Next()
		var renewed <-chan struct{} // of no use to others, whose own beats are answered
		if st.role == conclave.RoleMeta {
			renewed = j.renewals.Next()
		}
		select {
		case echo = <-st.echo:
		default:
		}
		state := j.view.State()
		if st.role != conclave.RoleData && !sent.Epoch.IsZero() && beginsHandOvers(sent, state.Table) {
			if err := sleep.For(ctx, dataFirst); err != nil {
				return context.Cause(ctx)
			}
			state = j.view.State()
		}
		out := &wirev1.JoinResponse{
			Term: j.term.Number, Leader: wire.NodeOut(j.config.Node), Address: j.address,
			Beat: j.beat.Load(), LeaseMs: wire.Ms(j.config.Lease), NodeLeaseMs: wire.Ms(j.config.NodeLease),
			Registered: st.role == conclave.RoleMeta || state.Members.Has(st.id), Metas: j.metas(), Echo: echo,
		}
		_, leading := j.elector.Leading()
		if leading {
			out.State = j.deltas.stateOut(sent, state, have)
			if st.role == conclave.RoleSession {
				out.Sessions = j.roster.openSessions(state.Blacklist.Entries.Names())
			}
		}
		if err := conn.Send(out); err != nil {
			return err
		}
		pause := j.config.Beat + j.config.Beat/8 // each beat is answered; the pause matters when there are none
		if leading {
			if !state.Table.Epoch.Less(wire.EpochIn(have.GetTable())) {
				sent = state.Table
			}
			have = wire.EpochsAbove(have, state)
		} else {
			pause = j.config.Beat / 20
		}
		keepAlive.Reset(pause)
		select {
		case <-updated:
		case <-renewed:
		case echo = <-st.echo:
		case <-keepAlive.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deltas makes the messages with the state that a stream lacks. The delta from
// one table to the next is made once and shared by all streams, because they
// send it at the same moment, and the hand-overs that it begins wait for it.
type deltas struct {
	mu       sync.Mutex // guards the rest; held while a delta is made, so that the other streams wait for it
	from, to conclave.Epoch
	last     *wirev1.SlotTable // never changed
}

// dataFirst is how much later than data nodes the others receive a table that
// begins hand-overs. They are not needed for these, and on a small machine they
// would take the time of the nodes that are. A session that watches a successor
// learns from it when it serves.
const dataFirst = 3 * time.Millisecond

// beginsHandOvers reports whether a slot is handed over in the table next and was
// not in the table before it.
func beginsHandOvers(before, next slot.Table) bool {
	if !before.Epoch.Less(next.Epoch) {
		return false
	}
	for i, row := range next.Slots {
		if row.Phase == slot.Switching && (i >= len(before.Slots) || before.Slots[i].LeaderEpoch != row.LeaderEpoch) {
			return true
		}
	}
	return false
}

// stateOut returns the part of the state that a receiver with the epochs in have
// lacks. sent is the table that was sent to it before on this stream, the zero
// Table if none was: it then gets the whole table.
func (d *deltas) stateOut(sent slot.Table, state wire.State, have *wirev1.Epochs) *wirev1.State {
	lacks := wire.EpochIn(have.GetTable()).Less(state.Table.Epoch)
	if !lacks || sent.Epoch.IsZero() || len(sent.Slots) != len(state.Table.Slots) {
		return wire.StateOut(state, have)
	}
	rest := state
	rest.Table = slot.Table{}
	out := wire.StateOut(rest, have)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || d.from != sent.Epoch || d.to != state.Table.Epoch {
		d.from, d.to = sent.Epoch, state.Table.Epoch
		d.last = wire.DeltaOut(sent, state.Table, state.Replicas)
	}
	out.Table = d.last
	return out
}

// streamEnded handles the end of a stream. A session or data node without
// another stream becomes suspect and is examined.
func (j *joins) streamEnded(st *stream) {
	m, suspect := j.roster.streamEnded(st)
	if !suspect || j.ctx.Err() != nil {
		return
	}
	j.event(hclog.Info, "node.suspect", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role}, "the stream of %s %s broke", m.Role, m.Node.Name)
	j.helpers.Go(func() {
		contain.Run(j.log, func(error) {}, func() { j.examineSuspect(m) }) // its lease ends anyway
	})
}

// examineSuspect finds out whether a suspect is dead. Its lease continues; it
// is evicted earlier only on evidence: it was dialed before, and its address
// refuses two dials, suspectPause apart, or another incarnation of it answers there.
// Silence or an unrelated node at the address proves nothing; a name that no
// longer resolves counts only after a refusal. Two of four tries may be silent.
func (j *joins) examineSuspect(m wire.Member) {
	refused := 0
	for try := 0; try < 4 && j.roster.isSuspect(m.Node); try++ {
		id, err := j.identify(j.ctx, m.Address, identifyTimeout)
		switch {
		case err == nil && id.Name == m.Node.Name && id != m.Node:
			j.evict(m, "another incarnation answers at its address")
			return
		case err == nil:
			return // it is alive, and will join again
		case wire.Refused(err), refused > 0 && wire.Unnamed(err):
			refused++
		}
		if refused == 2 && m.Dialable {
			j.evict(m, "its address refused two dials")
			return
		}
		if sleep.For(j.ctx, suspectPause) != nil {
			return
		}
	}
}

func (j *joins) evict(m wire.Member, why string) {
	if !j.roster.evict(m.Node, true, time.Now()) {
		return
	}
	j.event(hclog.Info, "node.evicted", conclave.Epoch{}, map[string]any{"node": m.Node.Name, "role": m.Role, "why": why}, "%s %s was evicted: %s", m.Role, m.Node.Name, why)
	j.changed.Set()
}
