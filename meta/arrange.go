package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The arranger's use of package slot: it assigns slots to data nodes.

// versionOrigin is where the version floor of a table made from nothing counts
// from; see input.
var versionOrigin = time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)

// settleLimit bounds how long a series of registrations may delay the first
// table.
const settleLimit = 2 * time.Second

// arrange makes the next table and writes it if something has to change. After
// a change the arranger runs again at once, because a slot takes one step per
// write. until, if not zero, is when to run again.
func (a *arranger) arrange(ctx context.Context) (until time.Time, err error) {
	if a.state.Switches.Get(wire.SwitchArrange, "on") == "off" {
		return time.Time{}, nil
	}
	if now := time.Now(); a.roster.examining(now, examineTime) {
		return now.Add(examineTime / 10), nil
	}
	in, d := a.input()
	up := len(in.Live)
	// No node knows the address of one that could not be listed.
	in.Live = slices.DeleteFunc(slices.Clone(in.Live), func(n conclave.NodeID) bool {
		return !slices.ContainsFunc(a.state.Members.List, func(m wire.Member) bool { return m.Node == n })
	})
	if len(in.Live) == 0 {
		return time.Time{}, nil
	}
	if !in.Frozen && !slices.Equal(in.Unheard, a.unheard) {
		if slices.ContainsFunc(in.Unheard, func(name string) bool { return !slices.Contains(a.unheard, name) }) {
			a.log.Warn("data nodes that most sessions do not hear lead no slot", "nodes", in.Unheard)
		} else {
			a.log.Info("data nodes are heard again", "not yet", in.Unheard)
		}
		a.unheard = in.Unheard
	}
	if lost := len(d.lost); !in.Frozen && lost >= trigger(up+lost) { // as in protect
		a.changed.Set() // they were lost after protect had run
		return time.Time{}, nil
	}
	if time.Now().Before(a.adoptWait) && slices.ContainsFunc(a.state.Table.Slots, func(s slot.Slot) bool { return !slices.Contains(in.Live, s.Leader) }) {
		return a.adoptWait, nil
	}
	if !a.served(in.Live) {
		// No node serves yet: wait until all nodes are known, rather than give
		// every slot to the first one and move most of them afterwards.
		until = d.joined.Add(a.config.Settle)
		if limit := d.first.Add(settleLimit); limit.Before(until) {
			until = limit
		}
		if time.Now().Before(until) {
			return until, nil
		}
	}
	if len(a.state.Table.Slots) == 0 {
		return time.Time{}, a.begin(ctx, in)
	}
	now := arranged{a.state.Table.Epoch, in, d.reports}
	if now.as(a.rested) {
		return time.Time{}, nil
	}
	if until = handOversUntil(a.state.Table, in, a.switched); time.Now().Before(until) {
		return until, nil
	}
	next, moves, err := slot.Arrange(a.state.Table, in)
	if err != nil {
		return time.Time{}, fmt.Errorf("arrange the slots: %w", err)
	}
	if len(moves) == 0 {
		a.rested = now
		return time.Time{}, nil
	}
	a.traceCopies(in, moves)
	if err := a.write(ctx, conclavesql.KindTable, tableBody{a.replicas(), next.Slots}); err != nil {
		return time.Time{}, fmt.Errorf("write the slot table: %w", err)
	}
	if slices.ContainsFunc(moves, func(m slot.Move) bool { return m.Kind == slot.Switched }) {
		a.switched = time.Now()
	}
	a.reportMoves(moves, "")
	a.changed.Set()
	return time.Time{}, nil
}

// handOverTime bounds how long the next table waits for hand-overs in progress.
// They take a few milliseconds; a source that does not answer takes longer.
const handOverTime = 20 * time.Millisecond

// handOversUntil returns until when the next table is delayed, or zero. After a
// table that begins hand-overs, written at began, no other is written before the
// successors have reported that they serve. No node serves these slots meanwhile,
// and each table costs every node and the database the time that they need. The
// reports also arrive in one table instead of several. The slots of a dead
// slot leader wait for no hand-over.
func handOversUntil(t slot.Table, in slot.Input, began time.Time) time.Time {
	left := map[int]conclave.Epoch{} // switching slots, and the epochs at which they are to be served
	for _, row := range t.Slots {
		if !slices.Contains(in.Live, row.Leader) {
			return time.Time{}
		}
		if row.Phase == slot.Switching {
			left[row.ID] = row.LeaderEpoch
		}
	}
	for _, r := range in.Reports {
		if epoch, switching := left[r.Slot]; switching && r.State == slot.Serving && r.Epoch == epoch {
			delete(left, r.Slot)
		}
	}
	if len(left) == 0 {
		return time.Time{}
	}
	return began.Add(handOverTime)
}

// begin makes the first table.
func (a *arranger) begin(ctx context.Context, in slot.Input) error {
	if in.Frozen {
		return nil
	}
	next, err := slot.New(a.config.Slots, in)
	if errors.Is(err, slot.ErrNoSuccessor) {
		return nil // all nodes are on the blacklist: wait for one that is not
	}
	if err != nil {
		return fmt.Errorf("make the first slot table: %w", err)
	}
	if err := a.write(ctx, conclavesql.KindTable, tableBody{a.config.Replicas, next.Slots}); err != nil {
		return fmt.Errorf("write the first slot table: %w", err)
	}
	a.event(hclog.Info, "slot.table", a.state.Table.Epoch, map[string]any{"slots": len(next.Slots), "nodes": len(in.Live)},
		"%d slots were given to %d data nodes", len(next.Slots), len(in.Live))
	a.changed.Set()
	return nil
}

// served reports whether some slot leader is alive, so that moving slots
// could interrupt service.
func (a *arranger) served(live []conclave.NodeID) bool {
	return slices.ContainsFunc(a.state.Table.Slots, func(s slot.Slot) bool { return slices.Contains(live, s.Leader) })
}

// input returns all that the arranger knows besides the table, and what it has of it
// from the data nodes.
//
// The version floor of a table made from nothing is the only use of the wall
// clock: subscribers that outlive a wiped cluster hold versions of the old one
// and drop every lower version. If the clock is wrong, they miss changes; it
// decides nothing else.
func (a *arranger) input() (slot.Input, dataNodes) {
	now := time.Now()
	d := a.roster.data(now)
	return slot.Input{
		Next: a.nextEpoch(), Live: d.live, Silent: d.silent, Forbidden: a.black().Names(), Replicas: a.replicas(), Frozen: a.state.Freeze.Frozen,
		Unheard: a.roster.unheardNodes(trigger(len(d.live)), now), Reports: slices.Concat(d.reports...), FloorBase: max(0, int64(a.config.Now().Sub(versionOrigin)/time.Second)) * conclave.VersionBase,
		Limits: a.config.Limits,
	}, d
}

// replicas returns the number in the table, or before the first table the
// configured one.
func (a *arranger) replicas() int {
	if a.state.Replicas > 0 {
		return a.state.Replicas
	}
	return a.config.Replicas
}

// floor returns the number of data nodes below which no slot leaves the nodes of
// its row.
func (a *arranger) floor() int {
	n, err := strconv.Atoi(a.state.Switches.Get(wire.SwitchProtectionFloor, "0"))
	if err != nil {
		return 0 // checked when it was set
	}
	return n
}

// reportMoves records and logs a summary of a write.
func (a *arranger) reportMoves(moves []slot.Move, why string) {
	counts := map[slot.MoveKind]int{}
	var order []slot.MoveKind
	for _, m := range moves {
		if counts[m.Kind]++; counts[m.Kind] == 1 {
			order = append(order, m.Kind)
		}
	}
	text := ""
	for _, kind := range order {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", counts[kind], kind)
	}
	if why != "" {
		text += ": " + why
	}
	shown := moves[:min(len(moves), 16)]
	a.event(hclog.Debug, "slot.table", a.state.Table.Epoch, map[string]any{"moves": len(moves), "first": shown}, "slots: %s", text)
}
