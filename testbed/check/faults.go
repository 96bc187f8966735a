package check

import (
	"slices"
	"strings"
	"time"

	"conclave/testbed"
)

// faultTimes lists, for each host, the times in which a fault affected it. A
// fault that was not ended lasts until the end of the history.
type faultTimes map[string][]span

type span struct{ from, to time.Duration }

// faultSpans returns the times of all faults. A fault on a link affects both
// ends; a fault without a named peer affects all hosts ("" is the network as a
// whole). With verbs, only faults that begin with one of them are returned.
func (h *History) faultSpans(verbs ...testbed.Verb) faultTimes {
	return h.faultSpansOf(func(a testbed.Action) bool { return len(verbs) == 0 || slices.Contains(verbs, a.Verb) })
}

// faultSpansBut returns the times of all faults except those whose verb is left
// out.
func (h *History) faultSpansBut(leftOut func(testbed.Verb) bool) faultTimes {
	return h.faultSpansOf(func(a testbed.Action) bool { return !leftOut(a.Verb) })
}

// faultSpansOf returns the times of the faults that begin with an act for which
// begins returns true.
func (h *History) faultSpansOf(begins func(testbed.Action) bool) faultTimes {
	out := faultTimes{}
	end := h.End()
	began := map[string]int{} // fault's key and host -> index in out[host]
	h.faults(func(_ int, at time.Duration, x Fault) {
		if !x.Action.EndsFault() && !begins(x.Action) {
			return
		}
		hosts := []string{x.Node}
		switch x.Verb {
		case testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Reset, testbed.HalfOpen, testbed.LoseNext, testbed.Mend:
			hosts = append(hosts, x.Peer)
		}
		for _, host := range hosts {
			k := x.Action.Key() + "@" + host
			if x.Action.EndsFault() {
				if i, ok := began[k]; ok {
					out[host][i].to = at
					delete(began, k)
				}
				continue
			}
			to := at
			if x.Verb.Undo() != "" {
				to = end
				if i, twice := began[k]; twice {
					if x.Verb != testbed.Kill {
						continue
					}
					out[host][i].to = at // the node was stopping; now it is lost
				}
				began[k] = len(out[host])
			}
			out[host] = append(out[host], span{at, to})
		}
	})
	return out
}

// any reports whether a fault affected one of the hosts between two times.
func (t faultTimes) any(from, to time.Duration, hosts ...string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool { return during(t[host], from, to) })
}

// during reports whether one of the spans has a moment between two times.
func during(all []span, from, to time.Duration) bool {
	return slices.ContainsFunc(all, func(s span) bool { return s.from <= to && s.to >= from })
}

// onlyOn reports whether faults affected, between two times, only hosts with
// one of the prefixes.
func (t faultTimes) onlyOn(from, to time.Duration, prefixes ...string) bool {
	for host, spans := range t {
		if during(spans, from, to) && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(host, p) }) {
			return false
		}
	}
	return true
}

// steady returns a function that reports whether no fault began or ended between
// two times, and none was in effect but lost data nodes and some lost sessions,
// and ports that were closed. Commands with the verbs in allowed do not count.
func (h *History) steady(allowed ...testbed.Verb) func(from, to time.Duration) bool {
	lasting := []testbed.Verb{testbed.Kill, testbed.Stop, testbed.ClosePort, testbed.StartWrong}
	others := h.faultSpansBut(func(v testbed.Verb) bool { return slices.Contains(lasting, v) || slices.Contains(allowed, v) })
	steady := h.faultSpans(lasting...)
	return func(from, to time.Duration) bool {
		for host, spans := range steady {
			for _, s := range spans {
				mayFail := strings.HasPrefix(host, "data-") || strings.HasPrefix(host, "session-") || strings.HasPrefix(host, "client-")
				begins, ends := from <= s.from && s.from <= to, from <= s.to && s.to <= to
				if begins || ends || !mayFail && s.from <= to && s.to >= from {
					return false
				}
			}
		}
		unaffected := func(n string) bool { return !steady.any(from, to, n) }
		return others.onlyOn(from, to) && slices.ContainsFunc(h.Cluster.NodesOf("session"), unaffected)
	}
}

// SessionGrace is how long data nodes keep a lost session's copies: the default
// of the processes.
const SessionGrace = 15 * time.Second

// GuardGrace is the longest time that the push guard adds to the session grace.
const GuardGrace = 5 * time.Second
