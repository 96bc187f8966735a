package blackbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// keepVersions bounds how many versions of a dataId are compared between subscribers.
const keepVersions = 400

// pushed checks one push.
func (o *Oracle) pushed(subscriber, data string, version int64, values []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.views[subscriber+" "+data]
	if v == nil { // the push arrived while the subscriber was leaving
		return
	}
	o.pushes++
	o.note(event{data: data, subscriber: subscriber, text: fmt.Sprintf("%s: %s version %d: %s", subscriber, data, version, strings.Join(values, " "))})
	o.checkVersion(v, version, values)
	here := o.checkValues(v, values)
	o.checkAbsent(v, here)
	for id := range v.shown {
		if here[id] == 0 && o.regs[id].ending >= 0 {
			v.lost[id] = struct{}{}
		}
	}
	for id, n := range here {
		v.high[id] = max(v.high[id], n)
		r := o.regs[id]
		r.seen = max(r.seen, n)
		o.settled(r)
	}
	if v.first < 0 {
		v.first = o.now()
		o.read = max(o.read, v.began)
	}
	v.version, v.shown = version, here
}

// broken records a violation by the newest push of a view; mu is held.
func (o *Oracle) broken(c Check, v *view, format string, args ...any) {
	o.violate(c, v.data, v.subscriber, "%s: %s %s", v.subscriber, v.data, fmt.Sprintf(format, args...))
}

// overdue reports whether something that was acknowledged at a time must show in a
// push to a view now, and in which check; mu is held.
func (o *Oracle) overdue(at time.Duration, v *view, later Check) (Check, bool) {
	if v.first < 0 && v.began-at > o.bounds.First {
		return First, true
	}
	return later, o.now()-at > o.bounds.Late
}

// checkVersion checks that versions rise and that each has one content.
func (o *Oracle) checkVersion(v *view, version int64, values []string) {
	o.counts[Version].Checks++
	if v.first >= 0 && version <= v.version {
		o.broken(Version, v, "was pushed at version %d after %d", version, v.version)
	}
	known := o.contents[v.data]
	if known == nil {
		known = map[int64]string{}
		o.contents[v.data] = known
	}
	content := strings.Join(slices.Sorted(slices.Values(values)), " ")
	o.counts[Content].Checks++
	if was, seen := known[version]; seen && was != content {
		o.broken(Content, v, "is [%s] at version %d, another subscriber got [%s]", content, version, was)
	}
	known[version] = content
	if len(known) > keepVersions {
		for _, old := range slices.Sorted(maps.Keys(known))[:len(known)/2] {
			delete(known, old)
		}
	}
}

// checkValues checks the values in a push, and returns them.
func (o *Oracle) checkValues(v *view, values []string) map[string]int {
	here := make(map[string]int, len(values))
	for _, value := range values {
		o.counts[Foreign].Checks++
		id, n, ok := parse(value)
		r := o.regs[id]
		if !ok || r == nil || r.data != v.data || n < 1 || n > r.begun || here[id] != 0 {
			o.broken(Foreign, v, "holds %q, which was not published there, or holds it twice", value)
			continue
		}
		here[id] = n
		o.checkEnded(v, r)
		o.counts[Back].Checks++
		if n < v.high[id] {
			o.broken(Back, v, "has %s fallen back from %d to %d", id, v.high[id], n)
		}
		o.counts[Stale].Checks++
		for seq, at := range r.storedAt {
			if c, overdue := o.overdue(at, v, Stale); overdue && seq > n {
				o.broken(c, v, "shows %s#%d, although #%d was stored %s ago", id, n, seq, o.ago(at))
				break
			}
		}
	}
	return here
}

// checkEnded checks that what has disappeared at a subscriber is not shown to it
// again, and that an acknowledged withdrawal takes effect in time.
func (o *Oracle) checkEnded(v *view, r *registration) {
	if r.ending < 0 {
		return
	}
	o.counts[Gone].Checks++
	_, gone := v.lost[r.id]
	switch {
	case gone && r.killed && r.gone < 0:
		o.broken(Gone, v, "shows %s again, whose client died, after it was gone", r.id)
	case gone && r.gone >= 0:
		o.broken(Gone, v, "shows %s again, whose withdrawal was acknowledged %s ago, after it was gone", r.id, o.ago(r.gone))
	case r.gone >= 0:
		if c, overdue := o.overdue(r.gone, v, Gone); overdue {
			o.broken(c, v, "still shows %s, whose withdrawal was acknowledged %s ago", r.id, o.ago(r.gone))
		}
	}
}

// checkAbsent checks that live registrations are in the push.
func (o *Oracle) checkAbsent(v *view, here map[string]int) {
	// A list may be incomplete after a loss of all data nodes and all sessions if its
	// subscriber had none before. A list that a subscriber had never shrinks, and what
	// a new subscriber has seen stays (ARCHITECTURE.md).
	incomplete := o.now() < o.lost+o.bounds.Lost && (v.first < 0 || v.first > o.lost)
	check := Missing
	if v.first < 0 {
		check = First
	}
	var missing []string
	for id, r := range o.live[v.data] {
		_, late := o.overdue(r.first, v, check)
		if here[id] == 0 && (v.shown[id] != 0 || late && r.first >= 0 && !incomplete) {
			missing = append(missing, id)
		}
	}
	o.counts[check].Checks++
	if len(missing) > 0 {
		slices.Sort(missing)
		o.broken(check, v, "had %d values, has %d, and lacks live registrations: %s", len(v.shown), len(here), strings.Join(missing, " "))
	}
}
