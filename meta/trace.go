package meta

import (
	"slices"
	"strings"

	"conclave"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// traced puts the two claims around a statement of the arranger: between "do I
// lead?" and the statement, and before anything is done with its outcome.
func (a *arranger) traced(old, next conclavesql.State, write func() (conclavesql.Outcome, error)) (conclavesql.Outcome, error) {
	claim := trace.Claim{
		Kind: trace.Writing, Term: a.fence.Term, Subject: string(next.Kind), Key: next.Nonce,
		Base: conclave.Epoch{Term: old.Term, Seq: old.Seq}, Epoch: conclave.Epoch{Term: next.Term, Seq: next.Seq},
	}
	a.l.s.cfg.Trace.Claim(claim)
	outcome, err := write()
	claim.Kind, claim.Flag, claim.Count, claim.Err = trace.Wrote, outcome == conclavesql.Written, int(outcome), err
	a.l.s.cfg.Trace.Claim(claim)
	return outcome, err
}

// decoded takes a row that this term has written over, and claims what it says:
// each slot that has got another leader or another epoch, and the blacklist.
func (a *arranger) decoded(row conclavesql.State) error {
	before := a.state.Table
	if err := a.decode(row); err != nil || a.l.s.cfg.Trace == nil {
		return err
	}
	epoch := conclave.Epoch{Term: row.Term, Seq: row.Seq}
	switch row.Kind {
	case conclavesql.KindTable:
		for i, s := range a.state.Table.Slots {
			if i >= len(before.Slots) || before.Slots[i].LeaderEpoch != s.LeaderEpoch || before.Slots[i].Leader != s.Leader {
				a.l.s.cfg.Trace(trace.Claim{Kind: trace.Granted, Term: row.Term, Base: epoch, Slot: i, Epoch: s.LeaderEpoch, Peer: s.Leader, Version: s.VersionBase, Key: string(s.Phase)})
			}
		}
	case conclavesql.KindBlacklist:
		names := a.black.Names()
		slices.Sort(names)
		a.l.s.cfg.Trace(trace.Claim{Kind: trace.Listed, Term: row.Term, Epoch: epoch, Key: strings.Join(names, ",")})
	}
	return nil
}
