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

// Span is a period in which a process was stopped by the kernel, or had a fault.
type Span struct {
	Process  string
	From, To int64
}

// includes reports whether it is that process's, and it at that time.
func (s Span) includes(process string, at int64) bool {
	return s.Process == process && s.From <= at && at < s.To
}

// Overlap returns for how long, between from and to, two or more running
// processes believed that they lead. The time in which a process was stopped
// does not count, because it has no effect then; the time after it does.
func Overlap(leaderships []Leadership, stops []Span, from, to int64) time.Duration {
	times := []int64{from, to} // at which a process may begin or end to lead
	for _, l := range leaderships {
		times = append(times, l.From, l.end())
	}
	for _, s := range stops {
		times = append(times, s.From, s.To)
	}
	slices.Sort(times)
	var total int64
	for i, at := range times[:len(times)-1] {
		if at < from || at >= to || at == times[i+1] {
			continue
		}
		leaders := map[string]bool{}
		for _, l := range leaderships {
			stopped := slices.ContainsFunc(stops, func(s Span) bool { return s.includes(l.Process, at) })
			if l.includes(at) && !stopped {
				leaders[l.Process] = true
			}
		}
		if len(leaders) >= 2 {
			total += times[i+1] - at
		}
	}
	return time.Duration(total)
}

// Depositions counts the leaderships that began while another process believed
// that it leads, although no fault affected either: faults are the processes and
// the times of faults. If the other leadership was less than beat old, one
// election was won twice; otherwise a living leader was deposed.
func Depositions(leaderships []Leadership, faults []Span, beat time.Duration) (deposed, twice int) {
	faulted := func(process string, at int64) bool {
		return slices.ContainsFunc(faults, func(s Span) bool { return s.includes(process, at) })
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
