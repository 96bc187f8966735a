package check

import (
	"cmp"
	"slices"
	"time"
)

// Cut returns the history as it goes on after a moment, with the operations of
// clients after it; whole is for how long before it everything of the nodes is kept.
func Cut(h History, at, whole time.Duration) *History {
	all := h.Entries
	h.cut(at, whole)
	for _, e := range all {
		if e.Op != nil && e.At > at {
			e.At -= at
			h.Entries = append(h.Entries, e)
		}
	}
	slices.SortStableFunc(h.Entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	return &h
}
