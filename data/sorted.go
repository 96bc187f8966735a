package data

import (
	"cmp"
	"slices"

	"conclave"
)

// What others can observe comes from sorted keys, never from map order.

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortedNodes[V any](m map[conclave.NodeID]V) []conclave.NodeID {
	nodes := make([]conclave.NodeID, 0, len(m))
	for n := range m {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, conclave.NodeID.Compare)
	return nodes
}

func containsNode(nodes []conclave.NodeID, n conclave.NodeID) bool { return slices.Contains(nodes, n) }

func sortDatums(d []DatumInfo) {
	slices.SortFunc(d, func(a, b DatumInfo) int { return cmp.Compare(a.String(), b.String()) })
}
