package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"conclave"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// The arranger's use of package slot: which data node has which slot.

// yearZero is where the version floor of a table made from nothing counts from;
// see input.
var yearZero = time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)

// settleLimit bounds how long a stream of registrations may put the first table
// off.
const settleLimit = 2 * time.Second

// arrange makes the next table and writes it, if anything has to change. When
// something did, the arranger looks again at once: a slot takes one step in each
// write. until, when it is not zero, says when to look again.
func (a *arranger) arrange(ctx context.Context) (until time.Time, err error) {
	if a.state.Switches.Get(wire.SwitchArrange, "on") == "off" {
		return time.Time{}, nil
	}
	if now := time.Now(); a.l.roster.examined(now, examination) {
		return now.Add(examination / 10), nil
	}
	in := a.input()
	if len(in.Live) == 0 {
		return time.Time{}, nil
	}
	if lost := a.l.roster.lost(time.Now()); !in.Frozen && len(lost) >= trigger(len(in.Live)+len(lost)) {
		a.wake() // it was found out since protect looked
		return time.Time{}, nil
	}
	if time.Now().Before(a.absent) && slices.ContainsFunc(a.state.Table.Slots, func(s slot.Slot) bool { return !slices.Contains(in.Live, s.Leader) }) {
		return a.absent, nil
	}
	if !a.served(in.Live) {
		// Nobody serves anything yet: then it is better to know all nodes than to
		// give the first one everything and take it away again.
		last, first := a.l.roster.settled()
		until = last.Add(a.l.s.cfg.Settle)
		if limit := first.Add(settleLimit); limit.Before(until) {
			until = limit
		}
		if time.Now().Before(until) {
			return until, nil
		}
	}
	if len(a.state.Table.Slots) == 0 {
		return time.Time{}, a.begin(ctx, in)
	}
	next, moves, err := slot.Arrange(a.state.Table, in)
	if err != nil {
		return time.Time{}, fmt.Errorf("arrange the slots: %w", err)
	}
	if len(moves) == 0 {
		return time.Time{}, nil
	}
	a.traceCopies(in, moves)
	if err := a.write(ctx, conclavesql.KindTable, tableBody{a.replicas(), next.Slots}); err != nil {
		return time.Time{}, fmt.Errorf("write the slot table: %w", err)
	}
	a.tellMoves(moves, "")
	a.wake()
	return time.Time{}, nil
}

// begin makes the first table.
func (a *arranger) begin(ctx context.Context, in slot.Input) error {
	if in.Frozen {
		return nil
	}
	next, err := slot.New(a.l.s.cfg.Slots, in)
	if errors.Is(err, slot.ErrNoSuccessor) {
		return nil // all are forbidden: wait for one that is not
	}
	if err != nil {
		return fmt.Errorf("make the first slot table: %w", err)
	}
	if err := a.write(ctx, conclavesql.KindTable, tableBody{a.l.s.cfg.Replicas, next.Slots}); err != nil {
		return fmt.Errorf("write the first slot table: %w", err)
	}
	epoch := a.state.Table.Epoch
	a.l.s.event("slot.table", a.l.term.Number, &epoch, map[string]any{"slots": len(next.Slots), "nodes": len(in.Live)},
		"%d slots were given to %d data nodes", len(next.Slots), len(in.Live))
	a.log.Info("made the first slot table", "epoch", epoch.String(), "slots", len(next.Slots), "data nodes", len(in.Live))
	a.wake()
	return nil
}

// served says that some leader of the table is alive: there is something to lose.
func (a *arranger) served(live []conclave.NodeID) bool {
	return slices.ContainsFunc(a.state.Table.Slots, func(s slot.Slot) bool { return slices.Contains(live, s.Leader) })
}

// input is all that the arranger knows besides the table.
//
// The floor of the versions of a table made from nothing is the only use of the
// wall clock: subscribers that outlive a wiped cluster hold versions of the old
// one, and would drop all that comes below. A clock that is wrong costs them
// that, and decides nothing else.
func (a *arranger) input() slot.Input {
	live, silent, reports := a.l.roster.dataNodes()
	return slot.Input{
		Next: a.next(), Live: live, Silent: silent, Forbidden: a.black.Names(), Replicas: a.replicas(), Frozen: a.state.Freeze.Frozen,
		Reports: reports, FloorBase: max(0, int64(a.l.s.cfg.Now().Sub(yearZero)/time.Second)) * conclave.VersionBase,
		Limits: a.l.s.cfg.Limits,
	}
}

// replicas are as the table has it; before the first, as configured.
func (a *arranger) replicas() int {
	if a.state.Replicas > 0 {
		return a.state.Replicas
	}
	return a.l.s.cfg.Replicas
}

// floor is the fewest data nodes with which slots move.
func (a *arranger) floor() int {
	n, err := strconv.Atoi(a.state.Switches.Get(wire.SwitchProtectionFloor, "0"))
	if err != nil {
		return 0 // was checked when it was set
	}
	return n
}

// tellMoves sums a write up for people.
func (a *arranger) tellMoves(moves []slot.Move, why string) {
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
	epoch := a.state.Table.Epoch
	shown := moves[:min(len(moves), 16)]
	a.l.s.event("slot.table", a.l.term.Number, &epoch, map[string]any{"moves": len(moves), "first": shown}, "slots: %s", text)
	a.log.Debug("wrote the slot table", "epoch", epoch.String(), "moves", text)
}
