package session

import (
	"slices"
	"sync"

	"conclave"
	"conclave/wire"
)

// addressBook holds the addresses of nodes: of every member, and of those that
// are off the member list but still lead a slot in the last table. Without the
// latter a session would lose its routes when members are removed while the
// table is frozen.
type addressBook struct {
	mu   sync.Mutex // guards the rest
	of   map[conclave.NodeID]string
	data []string // addresses of the data members
}

func (b *addressBook) update(state wire.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[conclave.NodeID]string{}
	for _, sl := range state.Table.Slots {
		if a, ok := b.of[sl.Leader]; ok {
			next[sl.Leader] = a
		}
	}
	b.data = nil
	for _, m := range state.Members.List {
		next[m.Node] = m.Address
		if m.Role == conclave.RoleData {
			b.data = append(b.data, m.Address)
		}
	}
	b.of = next
}

func (b *addressBook) find(n conclave.NodeID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[n]
}

// dataNodes returns the addresses of the data members.
func (b *addressBook) dataNodes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.data)
}
