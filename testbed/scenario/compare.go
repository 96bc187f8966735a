package scenario

import (
	"fmt"
	"slices"

	"conclave"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// compare compares the followers' copies with their leaders', where both are at
// the same position of the same feed.
func (p *player) compare(table slot.Table) {
	if p.can.SlotCopies == nil {
		return
	}
	leaders := map[int]testbed.SlotCopy{}
	all := p.can.SlotCopies()
	for _, c := range all {
		if old, known := leaders[c.Slot]; c.Leads && (!known || old.Epoch.Less(c.Epoch)) {
			leaders[c.Slot] = c
		}
	}
	var differ []string
	for _, c := range all {
		l, known := leaders[c.Slot]
		if c.Leads || c.Detached || !known || l.Epoch != c.Epoch || l.Position != c.Position {
			continue
		}
		p.compared++
		if l.Digest != c.Digest || l.Entries != c.Entries {
			differ = append(differ, fmt.Sprintf("slot %d at epoch %s and position %d: %d entries at %s, %d at %s", c.Slot, c.Epoch, c.Position, l.Entries, l.Node, c.Entries, c.Node))
		}
	}
	if len(differ) > 0 {
		p.reportCompared(differ)
	}
	p.noteEvicted(all, table)
}

// noteEvicted records the slots of leaders that were evicted although they
// live, ahead of every copy: the slot has been granted to another node after a
// crash, and its old leader, which has not received that table, still serves.
func (p *player) noteEvicted(all []testbed.SlotCopy, table slot.Table) {
	for _, c := range all {
		if !c.Leads || c.Slot >= len(table.Slots) || p.evicted[c.Slot] == table.Slots[c.Slot].LeaderEpoch {
			continue
		}
		row := table.Slots[c.Slot]
		replacement := slices.IndexFunc(all, func(x testbed.SlotCopy) bool { return x.Slot == c.Slot && x.Node == row.Leader.Name })
		if row.Phase != slot.Crash || !c.Epoch.Less(row.LeaderEpoch) || replacement < 0 || !all[replacement].Detached || hasAll(all, c) {
			continue
		}
		if p.evicted == nil {
			p.evicted = map[int]conclave.Epoch{}
		}
		p.evicted[c.Slot] = row.LeaderEpoch
		p.rec.Op(check.Op{Kind: check.OpAhead, Client: c.Node, Values: []string{fmt.Sprint(c.Slot)}})
	}
}

// hasAll reports whether another node has everything that a leader has.
func hasAll(all []testbed.SlotCopy, leader testbed.SlotCopy) bool {
	return slices.ContainsFunc(all, func(c testbed.SlotCopy) bool {
		return c.Node != leader.Node && c.Slot == leader.Slot && c.Epoch == leader.Epoch && c.Position == leader.Position
	})
}

// NoteAhead records the slots of a node that is about to be lost whose last
// changes no other node has.
func NoteAhead(rec Recorder, can *testbed.Capabilities, node string) {
	if can.SlotCopies == nil {
		return
	}
	all := can.SlotCopies()
	var ahead []string
	for _, l := range all {
		if !l.Leads || l.Node != node {
			continue
		}
		if !hasAll(all, l) {
			ahead = append(ahead, fmt.Sprint(l.Slot))
		}
	}
	if len(ahead) > 0 {
		rec.Op(check.Op{Kind: check.OpAhead, Client: node, Values: ahead})
	}
}

func (p *player) reportCompared(differ []string) {
	p.rec.Op(check.Op{Kind: check.OpCompared, Version: p.compared, Values: differ})
	p.compared = 0
}
