package meta

import (
	"slices"
	"strings"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	"conclave/slot"
	conclavesql "conclave/sql"
)

// traced emits the two trace events around a statement of the arranger: after
// it checked that it leads and before the statement, and before the outcome is
// used.
func (a *arranger) traced(old, next conclavesql.State, write func() (conclavesql.Outcome, error)) (conclavesql.Outcome, error) {
	claim := trace.Claim{
		Kind: trace.Writing, Term: a.fence.Term, Subject: string(next.Kind), Key: next.Nonce,
		Base: conclave.Epoch{Term: old.Term, Seq: old.Seq}, Epoch: conclave.Epoch{Term: next.Term, Seq: next.Seq},
	}
	a.config.Trace.Claim(claim)
	outcome, err := write()
	claim.Kind, claim.Flag, claim.Count, claim.Err = trace.Wrote, outcome == conclavesql.Written, int(outcome), err
	a.config.Trace.Claim(claim)
	return outcome, err
}

// traceCopies emits, for each slot of a dead slot leader that is to be granted, what
// is known of the copies of it that the live nodes of its row have, so that a
// checker can decide whether the right node was chosen.
func (a *arranger) traceCopies(in slot.Input, moves []slot.Move) {
	if a.config.Trace == nil {
		return
	}
	type copyOf struct {
		slot int
		node conclave.NodeID
	}
	reports := make(map[copyOf]slot.Report, len(in.Reports))
	for _, r := range in.Reports {
		reports[copyOf{r.Slot, r.Node}] = r
	}
	for _, m := range moves {
		if m.Kind != slot.Granted || m.From == m.To {
			continue
		}
		known := trace.Claim{Kind: trace.Copied, Term: a.fence.Term, Base: in.Next, Slot: m.Slot}
		row := slices.DeleteFunc(a.state.Table.Slots[m.Slot].Holders(), func(n conclave.NodeID) bool { return n == m.To || n == m.From || !slices.Contains(in.Live, n) })
		for i, n := range append([]conclave.NodeID{m.To}, row...) {
			known.Flag, known.Peer = i == 0, n
			known.Key, known.Epoch, known.Count = "none", conclave.Epoch{}, 0
			if r, reported := reports[copyOf{m.Slot, n}]; reported {
				known.Key, known.Epoch, known.Count = string(r.State), r.Epoch, int(r.LagMs)
			}
			a.config.Trace(known)
		}
	}
}

// decoded decodes a row that this term has written and emits trace events for
// it: each slot with another slot leader or epoch, and the blacklist.
func (a *arranger) decoded(row conclavesql.State) error {
	before := a.state.Table
	if err := a.decode(row); err != nil || a.config.Trace == nil {
		return err
	}
	epoch := conclave.Epoch{Term: row.Term, Seq: row.Seq}
	switch row.Kind {
	case conclavesql.KindTable:
		for i, s := range a.state.Table.Slots {
			if i >= len(before.Slots) || before.Slots[i].LeaderEpoch != s.LeaderEpoch || before.Slots[i].Leader != s.Leader {
				a.config.Trace(trace.Claim{Kind: trace.Granted, Term: row.Term, Base: epoch, Slot: i, Epoch: s.LeaderEpoch, Peer: s.Leader, Version: s.VersionBase, Key: string(s.Phase)})
			}
		}
	case conclavesql.KindBlacklist:
		names := a.black().Names()
		slices.Sort(names)
		a.config.Trace(trace.Claim{Kind: trace.Listed, Term: row.Term, Epoch: epoch, Key: strings.Join(names, ",")})
	}
	return nil
}

// TraceElection returns what takes the events of a node's election (see
// elector.Config.Trace) and claims them, under the node's name, to sink. It is
// nil if sink is.
func TraceElection(sink trace.Sink, node conclave.NodeID) func(elector.Event) {
	if sink == nil {
		return nil
	}
	return func(e elector.Event) {
		sink(trace.Claim{
			Node: node, Kind: trace.Kind(e.Kind), Term: e.Term, Beat: e.Beat, Until: e.Until, Err: e.Err,
			Peer: e.Owner, Epoch: conclave.Epoch{Term: e.Next}, Count: e.Rows, Flag: e.SameBeat,
		})
	}
}
