package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// condition is something that can be expected. holds reports whether it is true
// in an observation and, if not, why.
type condition struct {
	who, point, count bool
	about             string // for the authors of scenarios
	holds             func(p *player, e *Expectation, now testbed.Snapshot) (bool, string)
}

// newLeaderMissing returns why there is no new leader.
func newLeaderMissing(before, now testbed.Snapshot) string {
	if now.Leader == "" {
		return "no node leads"
	}
	return fmt.Sprintf("%s leads term %d; before it was term %d", now.Leader, now.Term, before.Term)
}

// currentWithin is how long a change may take to be seen, for "current".
const currentWithin = 2 * time.Second

// conditions are what can be expected.
var conditions = map[string]condition{
	"leader": {about: "some node leads and trusts itself", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Leader != "", "no node leads"
	}},
	"no leader": {about: "no node leads", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Leader == "", now.Leader + " leads"
	}},
	"new leader": {about: "a leader with a higher term than before the last fault", holds: func(p *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Leader != "" && now.Term > p.baseline.Term, newLeaderMissing(p.baseline, now)
	}},
	"one leader": {about: "exactly one node reports that it leads", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Leads == 1, fmt.Sprintf("%d nodes report that they lead", now.Leads)
	}},
	"same leader": {about: "the leader and the term of before the last fault", holds: func(p *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Leader == p.baseline.Leader && now.Term == p.baseline.Term, fmt.Sprintf("%s leads term %d; before it was %s and %d", now.Leader, now.Term, p.baseline.Leader, p.baseline.Term)
	}},
	"stable": {about: "every slot is stable on a node that runs", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		s := check.Summarize(now, nil)
		return s.Stable && s.Unled == 0, fmt.Sprintf("%d slots without a node, stable: %t", s.Unled, s.Stable)
	}},
	"even": {about: "stable, and the data nodes lead equally many slots, give or take one", holds: func(p *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return p.targets.summarize(now).Even, "slots are not even"
	}},
	"served without": {who: true, about: "stable, and WHO leads no slot", holds: func(p *player, e *Expectation, now testbed.Snapshot) (bool, string) {
		s := check.Summarize(now, nil)
		for _, n := range p.targets.resolve(e.Who, now) {
			if led(now.Table, n) {
				return false, n + " leads slots"
			}
		}
		return s.Stable && s.Unled == 0, fmt.Sprintf("%d slots without a node, stable: %t", s.Unled, s.Stable)
	}},
	"full": {about: "every subscriber sees exactly what live clients publish", holds: func(p *player, _ *Expectation, _ testbed.Snapshot) (bool, string) {
		return p.load.full()
	}},
	"current": {about: "no subscriber has seen another list than live clients publish for more than two seconds", holds: func(p *player, _ *Expectation, _ testbed.Snapshot) (bool, string) {
		_, difference := p.load.full()
		return len(p.load.lacking(currentWithin)) == 0, difference
	}},
	"without": {who: true, about: "no subscriber sees a registration of WHO", holds: ofEach(func(p *player, _ *Expectation, _ testbed.Snapshot, n string) (bool, string) {
		seen := p.load.shownOf(n)
		return seen == "", seen
	})},
	"held": {who: true, point: true, about: "WHO waits at the point", holds: ofEach(func(p *player, e *Expectation, _ testbed.Snapshot, n string) (bool, string) {
		return p.can.Held != nil && p.can.Held(n, e.Point) > 0, fmt.Sprintf("%s is not held at %s", n, e.Point)
	})},
	"refused": {count: true, about: "COUNT commands or writes of an older term were refused in the scenario so far", holds: func(p *player, e *Expectation, _ testbed.Snapshot) (bool, string) {
		n := p.rec.Refused() - p.refused
		return n >= e.Count, fmt.Sprintf("%d were refused", n)
	}},
	"connected": {about: "every client is connected to a session that was not killed", holds: func(p *player, _ *Expectation, _ testbed.Snapshot) (bool, string) {
		return p.load.connected(p.targets.dead)
	}},
	"ready": {about: "every node runs and has joined", holds: func(p *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		for _, n := range p.s.Cluster.Nodes() {
			if !slices.Contains(now.Up, n) || !slices.Contains(now.Ready, n) {
				return false, n + " is not ready"
			}
		}
		return true, ""
	}},
	"frozen": {about: "protection is on: no slot leaves the nodes of its row", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) { return now.Frozen, "not frozen" }},
	"partial": {about: "a slot is served without a session that could not be reached, and is shown as partial", holds: func(_ *player, _ *Expectation, now testbed.Snapshot) (bool, string) {
		return now.Partial > 0, "no slot is partial"
	}},
	"down": {who: true, about: "WHO has ended", holds: ofEach(func(_ *player, _ *Expectation, now testbed.Snapshot, n string) (bool, string) {
		return !slices.Contains(now.Up, n), n + " runs: true"
	})},
	"up": {who: true, about: "WHO runs", holds: ofEach(func(_ *player, _ *Expectation, now testbed.Snapshot, n string) (bool, string) {
		return slices.Contains(now.Up, n), n + " runs: false"
	})},
}

// About describes what is expected, for people.
func (e Expectation) About() string {
	return strings.ReplaceAll(conditions[e.What].about, "WHO", string(e.Who))
}

// ofEach is a condition that holds if it does for each node that WHO selects.
func ofEach(holds func(p *player, e *Expectation, now testbed.Snapshot, node string) (bool, string)) func(*player, *Expectation, testbed.Snapshot) (bool, string) {
	return func(p *player, e *Expectation, now testbed.Snapshot) (bool, string) {
		for _, n := range p.targets.resolve(e.Who, now) {
			if ok, why := holds(p, e, now, n); !ok {
				return false, why
			}
		}
		return true, ""
	}
}

// conditionNames returns the names with the longest first, as the parser needs
// them.
func conditionNames() []string {
	out := slices.Sorted(maps.Keys(conditions))
	slices.SortStableFunc(out, func(a, b string) int { return len(strings.Fields(b)) - len(strings.Fields(a)) })
	return out
}

// evaluate evaluates an expectation; done reports whether it is decided.
func (p *player) evaluate(o *openExpectation, now testbed.Snapshot) (done bool, failure error) {
	if done, failure = p.decide(o, now); done && !o.progress {
		for _, n := range p.narrators {
			n.Decided(o.Expectation, now, time.Since(o.due), failure)
		}
	}
	return done, failure
}

func (p *player) decide(o *openExpectation, now testbed.Snapshot) (done bool, failure error) {
	holds, why := conditions[o.What].holds(p, &o.Expectation, now)
	passed := time.Since(o.began)
	switch {
	case o.For > 0 && !holds:
		return true, fmt.Errorf("line %d: %s: false after %s: %s", o.line, o.Expectation, passed.Round(time.Millisecond), why)
	case o.For > 0:
		return passed >= o.For, nil
	case holds:
		return true, nil
	case passed > o.Within:
		return true, fmt.Errorf("line %d: %s: %s", o.line, o.Expectation, why)
	}
	return false, nil
}
