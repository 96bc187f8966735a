package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Pushed checks one push.
func (o *Oracle) Pushed(subscriber, data string, version int64, values []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.views[subscriber+" "+data]
	if v == nil { // the push arrived while the subscriber was leaving
		return
	}
	now, first := o.now(), !v.first
	o.pushes++
	o.record(event{data: data, subscriber: subscriber, text: fmt.Sprintf("%s: %s version %d: %s", subscriber, data, version, strings.Join(values, " "))})
	o.checkVersion(v, version, values)
	here := o.checkValues(v, values, now, first)
	o.checkAbsent(v, here, now, first)
	for id := range v.shown {
		if r := o.regs[id]; here[id] == 0 && r.ending {
			v.lost[id] = struct{}{}
		}
	}
	if first {
		v.first, v.firstAt = true, now
	}
	v.version, v.shown = version, here
	for id, n := range here {
		v.high[id] = max(v.high[id], n)
	}
}

// checkVersion checks that versions rise and that each has one content.
func (o *Oracle) checkVersion(v *view, version int64, values []string) {
	o.counts[checkVersion].Checks++
	if v.first && version <= v.version {
		o.violate(checkVersion, v, "%s: %s was pushed at version %d after %d", v.subscriber, v.data, version, v.version)
	}
	known := o.contents[v.data]
	if known == nil {
		known = map[int64]string{}
		o.contents[v.data] = known
	}
	content := strings.Join(slices.Sorted(slices.Values(values)), " ")
	o.counts[checkContent].Checks++
	if was, seen := known[version]; seen && was != content {
		o.violate(checkContent, v, "%s: version %d of %s is [%s], another subscriber got [%s]", v.subscriber, version, v.data, content, was)
	}
	known[version] = content
	if len(known) > keepVersions {
		for _, old := range slices.Sorted(maps.Keys(known))[:len(known)/2] {
			delete(known, old)
		}
	}
}

// keepVersions bounds how many versions of a dataId are compared between
// subscribers.
const keepVersions = 400

// checkValues checks the values in a push, and returns them.
func (o *Oracle) checkValues(v *view, values []string, now time.Duration, first bool) map[string]int {
	here := make(map[string]int, len(values))
	for _, value := range values {
		o.counts[checkForeign].Checks++
		id, n, ok := parse(value)
		r := o.regs[id]
		if !ok || r == nil || r.data != v.data || n < 1 || n > r.begun || here[id] != 0 {
			o.violate(checkForeign, v, "%s: %s holds %q, which was not published there, or holds it twice", v.subscriber, v.data, value)
			continue
		}
		here[id] = n
		o.checkEnded(v, r, now, first)
		o.counts[checkBack].Checks++
		if n < v.high[id] {
			o.violate(checkBack, v, "%s: %s of %s fell back from %d to %d", v.subscriber, id, v.data, v.high[id], n)
		}
		o.checkAge(v, r, n, now, first)
	}
	return here
}

// checkEnded checks that what has disappeared at a subscriber is not shown to
// it again, and that an acknowledged withdrawal takes effect in time.
func (o *Oracle) checkEnded(v *view, r *registration, now time.Duration, first bool) {
	if !r.ending {
		return
	}
	o.counts[checkGone].Checks++
	if _, gone := v.lost[r.id]; gone && (r.killed || r.gone >= 0) {
		how := "whose client died"
		if r.gone >= 0 {
			how = fmt.Sprintf("whose withdrawal was acknowledged %s ago", (now - r.gone).Round(time.Millisecond))
		}
		o.violate(checkGone, v, "%s: %s shows %s again, %s, after it was gone", v.subscriber, v.data, r.id, how)
		return
	}
	if r.gone < 0 {
		return
	}
	if age := now - r.gone; age > lateAge {
		o.violate(checkGone, v, "%s: %s still shows %s, whose withdrawal was acknowledged %s ago", v.subscriber, v.data, r.id, age.Round(time.Millisecond))
		return
	}
	if first {
		o.counts[checkFirst].Checks++
		if age := v.began - r.gone; age > firstListAge {
			o.violate(checkFirst, v, "%s: the first list of %s contains %s, whose withdrawal was acknowledged %s before it subscribed", v.subscriber, v.data, r.id, age.Round(time.Millisecond))
		}
	}
}

// checkAge checks that no value is shown that was replaced long ago.
func (o *Oracle) checkAge(v *view, r *registration, n int, now time.Duration, first bool) {
	o.counts[checkStale].Checks++
	for seq, at := range r.storedAt {
		if seq <= n {
			continue
		}
		if age := now - at; age > lateAge {
			o.violate(checkStale, v, "%s: %s shows %s#%d, although #%d was stored %s ago", v.subscriber, v.data, r.id, n, seq, age.Round(time.Millisecond))
			return
		}
		if first && v.began-at > firstListAge {
			o.violate(checkFirst, v, "%s: the first list of %s contains %s#%d, although #%d was stored %s before it subscribed", v.subscriber, v.data, r.id, n, seq, (v.began - at).Round(time.Millisecond))
			return
		}
	}
}

// checkAbsent checks that live registrations are in the push.
func (o *Oracle) checkAbsent(v *view, here map[string]int, now time.Duration, first bool) {
	var missing, late []string
	before := 0
	for _, id := range slices.Sorted(maps.Keys(o.byData[v.data])) {
		r := o.byData[v.data][id]
		if v.shown[id] != 0 {
			before++
		}
		if here[id] != 0 {
			continue
		}
		switch {
		case v.shown[id] != 0:
			missing = append(missing, id)
		case r.first < 0, o.incomplete(v, now):
		case first && v.began-r.first > firstListAge, now-r.first > lateAge:
			late = append(late, id)
		}
	}
	if first {
		o.counts[checkFirst].Checks++
		if len(late) > 0 {
			o.violate(checkFirst, v, "%s: the first list of %s has %d values and lacks %s, stored long before", v.subscriber, v.data, len(here), strings.Join(late, " "))
		}
		return
	}
	o.counts[checkMissing].Checks++
	o.counts[checkEmpty].Checks++
	if before > 0 && 2*len(missing) > before {
		o.violate(checkEmpty, v, "%s: %s lacks %d of %d live registrations: %s", v.subscriber, v.data, len(missing), before, strings.Join(missing, " "))
	}
	if missing = append(missing, late...); len(missing) > 0 {
		o.violate(checkMissing, v, "%s: %s lacks live registrations: %s", v.subscriber, v.data, strings.Join(missing, " "))
	}
}
