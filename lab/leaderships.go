package lab

import (
	"math"
	"slices"
	"time"
)

// Leadership is a period in which a process believed that it leads. Times are
// on the machine's shared clock, in nanoseconds.
type Leadership struct {
	Process string // name@incarnation
	From    int64
	Until   int64 // when it ends unless it is extended; 0 if nothing but an event ends it
	To      int64 // when the process left it; open while it has not
}

// open is the end of a leadership that has not ended.
const open = math.MaxInt64

// end returns when the leadership ends, as far as is known.
func (l Leadership) end() int64 {
	if l.Until != 0 {
		return min(l.To, l.Until)
	}
	return l.To
}

// includes reports whether the process believed at that time that it leads.
func (l Leadership) includes(at int64) bool { return l.From <= at && at < l.end() }

// Span is a period in which a process was stopped by the kernel.
type Span struct {
	Process  string
	From, To int64
}

// Overlap returns for how long, between from and to, two or more running
// processes believed that they lead. The time in which a process was stopped
// does not count, because it has no effect then; the time after it does.
func Overlap(leaderships []Leadership, stops []Span, from, to int64) time.Duration {
	type edge struct {
		at      int64
		step    int
		process string
	}
	var edges []edge
	for _, l := range leaderships {
		for _, s := range running(l, stops) {
			if begin, end := max(s.From, from), min(s.To, to); begin < end {
				edges = append(edges, edge{begin, 1, l.Process}, edge{end, -1, l.Process})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return int(min(max(a.at-b.at, -1), 1))
		default:
			return a.step - b.step // at the same time, ends come before beginnings
		}
	})
	var total, since int64
	leading := map[string]int{} // how many leaderships of each process are open
	for _, e := range edges {
		if len(leading) >= 2 {
			total += e.at - since
		}
		if leading[e.process] += e.step; leading[e.process] == 0 {
			delete(leading, e.process)
		}
		since = e.at
	}
	return time.Duration(total)
}

// running returns the parts of a leadership in which its process was not
// stopped.
func running(l Leadership, stops []Span) []Span {
	parts := []Span{{l.Process, l.From, l.end()}}
	for _, s := range stops {
		if s.Process != l.Process {
			continue
		}
		var rest []Span
		for _, p := range parts {
			if s.To <= p.From || p.To <= s.From {
				rest = append(rest, p)
				continue
			}
			if p.From < s.From {
				rest = append(rest, Span{p.Process, p.From, s.From})
			}
			if s.To < p.To {
				rest = append(rest, Span{p.Process, s.To, p.To})
			}
		}
		parts = rest
	}
	return parts
}

// Depositions counts the leaderships that began while another process believed
// that it leads, although no fault affected either: faults are the processes and
// the times of faults. If the other leadership was less than beat old, one
// election was won twice; otherwise a living leader was deposed.
func Depositions(leaderships []Leadership, faults []Span, beat time.Duration) (deposed, twice int) {
	faulted := func(process string, at int64) bool {
		return slices.ContainsFunc(faults, func(s Span) bool { return s.Process == process && s.From <= at && at <= s.To })
	}
	for _, next := range leaderships {
		var newest *Leadership // of those that next has replaced
		for i, l := range leaderships {
			if l.Process != next.Process && l.From < next.From && l.includes(next.From) && !faulted(l.Process, next.From) &&
				(newest == nil || newest.From < l.From) {
				newest = &leaderships[i]
			}
		}
		switch {
		case newest == nil || faulted(next.Process, next.From):
		case time.Duration(next.From-newest.From) < beat:
			twice++
		default:
			deposed++
		}
	}
	return deposed, twice
}

// Successor returns the first leadership that begins at or after a time and is
// not the given leader's.
func Successor(leaderships []Leadership, leader string, at int64) (Leadership, bool) {
	var first Leadership
	found := false
	for _, l := range leaderships {
		if l.Process != leader && l.From >= at && (!found || l.From < first.From) {
			first, found = l, true
		}
	}
	return first, found
}
