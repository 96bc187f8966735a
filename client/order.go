package client

// The classes in which a link sends publications, in this order (ADR 0079). Each
// class takes at most three quarters of what those before it have left of a
// message, if anything waits behind it, so that none waits for ever.
const (
	withdrawals = iota
	updates     // of what the link's session has accepted in an older version
	changes     // of what another session has accepted in an older version: new to this one
	others      // new, or sent to another session again
	classes
)

// classOf returns the class of a publication on the link of that number.
func classOf(p *Publication, link uint64) int {
	switch {
	case p.withdrawn:
		return withdrawals
	case p.accepted.version == 0 || p.accepted.version >= p.version:
		return others
	case p.acceptedBy != link:
		return changes
	}
	return updates
}

// waiting holds the publications that wait to be sent on a link, each once. It is
// not safe for concurrent use.
type waiting struct {
	class map[*Publication]int    // of each that waits
	lanes [classes][]*Publication // by class, oldest first; entries whose class is another one by now are skipped
}

// add adds a publication of a class, and reports whether it did not wait in this one
// or an earlier one: if so, it keeps its place.
func (w *waiting) add(p *Publication, class int) (added bool) {
	if was, waits := w.class[p]; waits && was <= class {
		return false
	}
	if w.class == nil {
		w.class = map[*Publication]int{}
	}
	w.class[p] = class
	w.lanes[class] = append(w.lanes[class], p)
	return true
}

// remove removes a publication, if it waits.
func (w *waiting) remove(p *Publication) { delete(w.class, p) }

// has reports whether a publication waits.
func (w *waiting) has(p *Publication) bool {
	_, waits := w.class[p]
	return waits
}

// first returns the oldest of a class, or nil.
func (w *waiting) first(class int) *Publication {
	lane := w.lanes[class]
	for len(lane) > 0 {
		if now, waits := w.class[lane[0]]; waits && now == class {
			break
		}
		lane[0] = nil
		lane = lane[1:]
	}
	if len(lane) == 0 {
		lane = nil
	}
	if w.lanes[class] = lane; lane == nil {
		return nil
	}
	return lane[0]
}

// behind reports whether anything waits in a later class.
func (w *waiting) behind(class int) bool {
	for later := class + 1; later < classes; later++ {
		if w.first(later) != nil {
			return true
		}
	}
	return false
}

// empty reports whether nothing waits.
func (w *waiting) empty() bool { return len(w.class) == 0 }
