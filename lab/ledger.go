package lab

import (
	"math"
	"slices"
	"time"
)

// Belief is one stretch for which a process believed to lead. Instants are on the
// machine's shared clock, in nanoseconds.
type Belief struct {
	Who   string // name@incarnation: one process
	From  int64
	Until int64 // believed until then, unless extended; 0: until something ends it
	To    int64 // when it ended; open while it has not
}

// open is the end of what has not ended.
const open = math.MaxInt64

// end is when the belief is over, as far as is known.
func (b Belief) end() int64 {
	if b.Until != 0 {
		return min(b.To, b.Until)
	}
	return b.To
}

// holds says whether it is a belief at that instant.
func (b Belief) holds(at int64) bool { return b.From <= at && at < b.end() }

// Span is a stretch for which a process was stopped by the kernel.
type Span struct {
	Who      string
	From, To int64
}

// Overlap is for how long, between from and to, two or more processes that ran believed
// to lead. A stopped process does nothing, so its stops do not count: what counts is
// how long it goes on after them.
func Overlap(beliefs []Belief, stops []Span, from, to int64) time.Duration {
	type edge struct {
		at   int64
		step int
		who  string
	}
	var edges []edge
	for _, b := range beliefs {
		for _, s := range running(b, stops) {
			if begin, end := max(s.From, from), min(s.To, to); begin < end {
				edges = append(edges, edge{begin, 1, b.Who}, edge{end, -1, b.Who})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return int(min(max(a.at-b.at, -1), 1))
		default:
			return a.step - b.step // what ends, ends first
		}
	})
	var total, since int64
	beliefsOf := map[string]int{}
	for _, e := range edges {
		if len(beliefsOf) >= 2 {
			total += e.at - since
		}
		if beliefsOf[e.who] += e.step; beliefsOf[e.who] == 0 {
			delete(beliefsOf, e.who)
		}
		since = e.at
	}
	return time.Duration(total)
}

// running are a belief's stretches without the stops of its process.
func running(b Belief, stops []Span) []Span {
	parts := []Span{{b.Who, b.From, b.end()}}
	for _, s := range stops {
		if s.Who != b.Who {
			continue
		}
		var cut []Span
		for _, p := range parts {
			if s.To <= p.From || p.To <= s.From {
				cut = append(cut, p)
				continue
			}
			if p.From < s.From {
				cut = append(cut, Span{p.Who, p.From, s.From})
			}
			if s.To < p.To {
				cut = append(cut, Span{p.Who, s.To, p.To})
			}
		}
		parts = cut
	}
	return parts
}

// Successor is the first belief, at or after an instant, of a process that is not the
// one that led then.
func Successor(beliefs []Belief, leader string, at int64) (Belief, bool) {
	var first Belief
	found := false
	for _, b := range beliefs {
		if b.Who != leader && b.From >= at && (!found || b.From < first.From) {
			first, found = b, true
		}
	}
	return first, found
}
