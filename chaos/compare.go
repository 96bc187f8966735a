package chaos

import (
	"fmt"
	"slices"
)

// compare holds the copies of followers against their leaders', where both are at
// the same position of the same feed.
func (p *player) compare() {
	d, can := p.driver.(Comparer)
	if !can {
		return
	}
	leaders := map[int]SlotCopy{}
	all := d.SlotCopies()
	for _, c := range all {
		if old, known := leaders[c.Slot]; c.Leads && (!known || old.Epoch.Less(c.Epoch)) {
			leaders[c.Slot] = c
		}
	}
	var differ []string
	for _, c := range all {
		l, known := leaders[c.Slot]
		if c.Leads || !known || l.Epoch != c.Epoch || l.Position != c.Position {
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
}

// noteAhead records the slots of a node that is about to be lost whose last changes
// no other node has taken.
func (p *player) noteAhead(node string) {
	d, can := p.driver.(Comparer)
	if !can {
		return
	}
	all := d.SlotCopies()
	var ahead []string
	for _, l := range all {
		if !l.Leads || l.Node != node {
			continue
		}
		if !slices.ContainsFunc(all, func(c SlotCopy) bool {
			return c.Node != node && c.Slot == l.Slot && c.Epoch == l.Epoch && c.Position == l.Position
		}) {
			ahead = append(ahead, fmt.Sprint(l.Slot))
		}
	}
	if len(ahead) > 0 {
		p.rec.Op(Op{Kind: OpAhead, Client: node, Values: ahead})
	}
}

func (p *player) reportCompared(differ []string) {
	p.rec.Op(Op{Kind: OpCompared, Version: p.compared, Values: differ})
	p.compared = 0
}
