package data

import (
	"maps"
	"slices"

	"conclave"
)

// Everything that is visible outside of this node is made in sorted order, so
// that a run in a bubble can be repeated.

func sortedNodes[V any](m map[conclave.NodeID]V) []conclave.NodeID {
	return slices.SortedFunc(maps.Keys(m), conclave.NodeID.Compare)
}

func containsNode(nodes []conclave.NodeID, n conclave.NodeID) bool { return slices.Contains(nodes, n) }

func nodeSet(all []conclave.NodeID) map[conclave.NodeID]bool {
	set := make(map[conclave.NodeID]bool, len(all))
	for _, n := range all {
		set[n] = true
	}
	return set
}
