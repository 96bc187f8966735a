package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// Figure is a measurement of a run: a count, or how long something took.
type Figure struct {
	Name  string          `json:"name"`
	Says  string          `json:"says"`
	N     int             `json:"n"`
	P50   time.Duration   `json:"p50,omitempty"`
	P99   time.Duration   `json:"p99,omitempty"`
	Max   time.Duration   `json:"max,omitempty"`
	Times []time.Duration `json:"-"` // all of them, in order
}

// String returns the figure as one line of text.
func (f Figure) String() string {
	if len(f.Times) == 0 && f.Max == 0 {
		return fmt.Sprintf("%s: %d (%s)", f.Name, f.N, f.Says)
	}
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("%s: n %d, p50 %s, p99 %s, max %s (%s)", f.Name, f.N, round(f.P50), round(f.P99), round(f.Max), f.Says)
}

// MarshalJSON writes durations as milliseconds.
func (f Figure) MarshalJSON() ([]byte, error) {
	row := map[string]any{"name": f.Name, "says": f.Says, "n": f.N}
	if gauges[f.Name].times != nil {
		row["p50Ms"], row["p99Ms"], row["maxMs"] = millis(f.P50), millis(f.P99), millis(f.Max)
	}
	return json.Marshal(row)
}

type gauge struct {
	title string
	times func(h *History) []time.Duration // how long something took, or
	count func(h *History) int             // how often it happened
}

// gauges are the figures that a scenario can ask for.
var gauges = map[string]gauge{
	"leaderless": {title: "from the end of one leader's trust to the next leader", times: leaderless},
	"overlap":    {title: "two nodes trust themselves at the same time", times: overlaps},
	"elections":  {title: "terms won", count: events(trace.Led)},
	"refused":    {title: "commands and writes of an older term that were refused", count: counter(func(e Entry) bool { return e.Event != nil && refusal(*e.Event) })},
	"demotion":   {title: "from the fault to the end of its leader's trust", times: demotion},
	"unserved":   {title: "a slot that no node serves", times: unserved},
	"moves":      {title: "slots granted to another leader or epoch", count: events(trace.Granted)},
	"empty":      {title: "pushes without values", count: counter(func(e Entry) bool { return e.Op != nil && e.Op.Kind == OpPush && e.At >= 0 && len(e.Op.Values) == 0 })},
	"push":       {title: "from a publication to each subscriber that sees it", times: pushTimes},
	"stored":     {title: "from a publication to the acknowledgement of a data node", times: storedTimes},
	"reconnect":  {title: "a client that no session knows", times: reconnects},
	"waited":     {title: "the longest wait for a node's processor, of each node ten times a second", times: waited},
	"queued":     {title: "the most bytes that waited for a node's processor", count: mostQueued},
	"overload":   {title: "the most that one node was given to do in a second, in percent of what it can do", count: overload},
	"statements": {title: "statements about the lock row in the first second after the first fault", count: statementsAfter},
	"held":       {title: "pushes held back by the guard", count: events(trace.Held)},
	"healed":     {title: "from the end of the last fault to each kind of progress", times: healed},
	"unheard":    {title: "changes without an acknowledgement in time", count: counter(func(e Entry) bool { return e.Op != nil && e.Op.Kind == OpUnheard })},
}

// FigureNames returns the names of all figures, sorted.
func FigureNames() []string { return slices.Sorted(maps.Keys(gauges)) }

// Figures returns the named figures of a history.
func Figures(h *History, names []string) []Figure {
	var out []Figure
	for _, name := range names {
		g, known := gauges[name]
		if !known {
			continue
		}
		f := Figure{Name: name, Says: g.title}
		if g.count != nil {
			f.N = g.count(h)
		} else {
			f = f.with(g.times(h))
		}
		out = append(out, f)
	}
	return out
}

// with returns the figure with the times and their percentiles.
func (f Figure) with(times []time.Duration) Figure {
	f.Times, f.N = times, len(times)
	sorted := slices.Sorted(slices.Values(times))
	if n := len(sorted); n > 0 {
		f.P50, f.P99, f.Max = sorted[(n-1)/2], sorted[(99*n+99)/100-1], sorted[n-1]
	}
	return f
}

// Since returns the figures of one scenario without what was in them earlier in
// the same run.
func Since(before, now []Figure) (out []Figure) {
	for _, f := range now {
		if i := slices.IndexFunc(before, func(b Figure) bool { return b.Name == f.Name }); i >= 0 {
			if gauges[f.Name].count != nil {
				f.N -= before[i].N
			} else {
				f = Figure{Name: f.Name, Says: f.Says}.with(f.Times[min(before[i].N, len(f.Times)):])
			}
		}
		out = append(out, f)
	}
	return out
}

// counter returns a function that counts the entries for which of is true.
func counter(of func(e Entry) bool) func(*History) int {
	return func(h *History) (n int) {
		for _, e := range h.Entries {
			if of(e) {
				n++
			}
		}
		return n
	}
}

// events counts the events of a kind in the scenario.
func events(k trace.Kind) func(*History) int {
	return counter(func(e Entry) bool { return e.Event != nil && e.Event.Kind == k && e.At >= 0 })
}

// gaps returns how long something lasted in the scenario, each time: for each key from
// an entry that begins it to the next one that ends it.
func (h *History) gaps(of func(e Entry) (key string, begins, ends bool)) (out []time.Duration) {
	since := map[string]time.Duration{}
	for _, e := range h.Entries {
		key, begins, ends := of(e)
		from, lasts := since[key]
		switch {
		case e.At < 0:
		case ends && lasts:
			out = append(out, e.At-from)
			delete(since, key)
		case begins && !lasts:
			since[key] = e.At
		}
	}
	return out
}

// leaderless returns the times in the scenario in which no node trusted itself
// to lead; without events, those in which no node was observed to lead.
func leaderless(h *History) (out []time.Duration) {
	if !h.HasEvents {
		return h.gaps(func(e Entry) (_ string, begins, ends bool) {
			led := e.Observed != nil && e.Observed.Leader != ""
			return "", e.Observed != nil && !led, led
		})
	}
	until := time.Duration(-1)
	for _, b := range h.Leaderships() {
		if until >= 0 && b.From > until {
			out = append(out, b.From-until)
		}
		if b.To > 0 {
			until = max(until, b.To)
		}
	}
	return out
}

func overlaps(h *History) (out []time.Duration) {
	all := h.Leaderships()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if d := min(a.To, b.To) - max(a.From, b.From); d > 0 {
				out = append(out, d)
			}
		}
	}
	return out
}

// demotion returns the time from the first fault of the scenario to the end of
// the perceived leadership of that moment.
func demotion(h *History) (out []time.Duration) {
	first := time.Duration(-1)
	h.faults(func(_ int, at time.Duration, x Fault) {
		if first < 0 && !x.Undo {
			first = at
		}
	})
	for _, b := range h.Leaderships() {
		if first >= 0 && b.From <= first && b.To > first && b.To < h.End() {
			out = append(out, b.To-first)
		}
	}
	return out
}

// unserved returns the gaps of each slot between the end of one node's service
// and the next node's; a node that is killed serves no longer.
func unserved(h *History) (out []time.Duration) {
	type state struct {
		by    string
		since time.Duration // since when no node serves it; negative: a node does
	}
	slots := map[int]*state{}
	end := func(name string, at time.Duration) {
		for _, s := range slots {
			if s.by == name && s.since < 0 {
				s.since = at
			}
		}
	}
	for _, e := range h.Entries {
		switch {
		case e.Fault != nil && e.Fault.Err == nil && e.Fault.Verb == testbed.Kill:
			end(e.Fault.Node, e.At)
		case e.Event != nil && e.Event.Kind == trace.Finished:
			if s := slots[e.Event.Slot]; s != nil && s.by == e.Event.Node.Name && s.since < 0 {
				s.since = e.At
			}
		case e.Event != nil && e.Event.Kind == trace.Serving:
			if s := slots[e.Event.Slot]; s != nil && s.since >= 0 && e.At > 0 {
				out = append(out, e.At-s.since)
			}
			slots[e.Event.Slot] = &state{e.Event.Node.Name, -1}
		}
	}
	return out
}

// pushTimes returns, for each publication and each subscriber, the time until
// the subscriber first sees that value.
func pushTimes(h *History) (out []time.Duration) {
	began := map[string]map[int]time.Duration{}
	seen := map[string]int{}
	h.ops(func(_ int, at time.Duration, o Op) {
		if o.Kind == OpPublish {
			if began[o.ID] == nil {
				began[o.ID] = map[int]time.Duration{}
			}
			began[o.ID][int(o.Version)] = at
			return
		}
		for _, value := range o.Values {
			tag, n, ok := ParseValue(value)
			if k := o.Client + " " + tag; ok && n > seen[k] && !strings.HasPrefix(o.Client, Reader) {
				seen[k] = n
				if since, known := began[tag][n]; known && since >= 0 {
					out = append(out, at-since)
				}
			}
		}
	}, OpPublish, OpPush)
	return out
}

func storedTimes(h *History) []time.Duration {
	return h.gaps(func(e Entry) (key string, begins, ends bool) {
		if e.Op == nil {
			return
		}
		return fmt.Sprint(e.Op.ID, "#", e.Op.Version), e.Op.Kind == OpPublish || e.Op.Kind == OpWithdraw, e.Op.Kind == OpStored
	})
}

func reconnects(h *History) []time.Duration {
	return h.gaps(func(e Entry) (key string, begins, ends bool) {
		if e.Op == nil || e.Op.Kind != OpConnected {
			return
		}
		return e.Op.Client, len(e.Op.Values) == 0, len(e.Op.Values) > 0
	})
}

// usage calls f with what each node with a budget had to do in the scenario.
func (h *History) usage(f func(at time.Duration, u testbed.Usage)) {
	for _, e := range h.Entries {
		if e.Usage != nil && e.At > 0 {
			f(e.At, *e.Usage)
		}
	}
}

func waited(h *History) (out []time.Duration) {
	h.usage(func(_ time.Duration, u testbed.Usage) { out = append(out, u.Waited) })
	return out
}

func mostQueued(h *History) (most int) {
	h.usage(func(_ time.Duration, u testbed.Usage) { most = max(most, u.Queued) })
	return most
}

// overload adds up what each node was given to do in the second before each of
// its entries.
func overload(h *History) (most int) {
	type offer struct{ at, offered time.Duration }
	last := map[string][]offer{}
	h.usage(func(at time.Duration, u testbed.Usage) {
		all := slices.DeleteFunc(append(last[u.Node], offer{at, u.Offered}), func(old offer) bool { return at-old.at >= time.Second })
		sum := time.Duration(0)
		for _, x := range all {
			sum += x.offered
		}
		last[u.Node], most = all, max(most, int(100*sum/time.Second))
	})
	return most
}

func statementsAfter(h *History) (n int) {
	first := time.Duration(-1)
	for _, e := range h.Entries {
		if e.Fault != nil && e.Fault.Err == nil && first < 0 {
			first = e.At
		}
		if e.Event != nil && first >= 0 && e.At <= first+time.Second && strings.HasSuffix(string(e.Event.Kind), "ing") && outcomes[e.Event.Kind] != "" && e.Event.Kind != trace.Writing {
			n++
		}
	}
	return n
}

func healed(h *History) (out []time.Duration) {
	since := time.Duration(-1)
	h.ops(func(_ int, at time.Duration, o Op) {
		switch {
		case o.Kind == OpHealed:
			since = at
		case o.Err == nil && since >= 0:
			out = append(out, at-since)
		}
	}, OpHealed, OpProgress)
	return out
}
