package check

import "time"

// Cut returns the history as it goes on after a moment, with the operations of
// clients after it.
func Cut(h History, at time.Duration) *History {
	r := Recorder{start: h.Began, h: h}
	out := r.Resume(h.Began.Add(at)).History(h.HasEvents)
	for _, e := range h.Entries {
		if e.Op != nil && e.At > at {
			e.At -= at
			out.Entries = append(out.Entries, e)
		}
	}
	sortByTime(out.Entries)
	return out
}
