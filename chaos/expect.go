package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// condition is something that can be expected: whether it holds, by what is seen
// now, and otherwise why not.
type condition struct {
	who, point, count bool
	about             string
	holds             func(p *player, e *Expectation, now Sight) (bool, string)
}

// newLeaderMissing says why there is no new leader.
func newLeaderMissing(before, now Sight) string {
	if now.Leader == "" {
		return "nobody leads"
	}
	return fmt.Sprintf("%s leads term %d; before it was term %d", now.Leader, now.Term, before.Term)
}

// conditions are what can be expected; about says it to people who write scenarios.
var conditions = map[string]condition{
	"leader": {about: "some node leads and trusts itself", holds: func(_ *player, _ *Expectation, now Sight) (bool, string) {
		return now.Leader != "", "nobody leads"
	}},
	"no leader": {about: "no node leads", holds: func(_ *player, _ *Expectation, now Sight) (bool, string) {
		return now.Leader == "", now.Leader + " leads"
	}},
	"new leader": {about: "one of a higher term than before the last act", holds: func(p *player, _ *Expectation, now Sight) (bool, string) {
		return now.Leader != "" && now.Term > p.baseline.Term, newLeaderMissing(p.baseline, now)
	}},
	"same leader": {about: "the one, and the term, of before the last act", holds: func(p *player, _ *Expectation, now Sight) (bool, string) {
		return now.Leader == p.baseline.Leader && now.Term == p.baseline.Term, fmt.Sprintf("%s leads term %d; before it was %s and %d", now.Leader, now.Term, p.baseline.Leader, p.baseline.Term)
	}},
	"stable": {about: "every slot has arrived at a node that runs", holds: func(_ *player, _ *Expectation, now Sight) (bool, string) {
		s := sighting(now, nil)
		return s.Stable && s.Unled == 0, fmt.Sprintf("%d slots without a node, stable: %t", s.Unled, s.Stable)
	}},
	"even": {about: "stable, and no data node leads two slots more than another", holds: func(p *player, _ *Expectation, now Sight) (bool, string) {
		return sighting(now, p.cast).Even, "slots are not even"
	}},
	"served without": {who: true, about: "stable, and WHO leads no slot", holds: func(p *player, e *Expectation, now Sight) (bool, string) {
		s := sighting(now, nil)
		for _, n := range p.cast.resolve(e.Who, now) {
			if led(now.Table, n) {
				return false, n + " leads slots"
			}
		}
		return s.Stable && s.Unled == 0, fmt.Sprintf("%d slots without a node, stable: %t", s.Unled, s.Stable)
	}},
	"full": {about: "every subscriber sees exactly what live clients publish", holds: func(p *player, _ *Expectation, _ Sight) (bool, string) {
		return p.load.full()
	}},
	"without": {who: true, about: "no subscriber sees anything of WHO", holds: func(p *player, e *Expectation, now Sight) (bool, string) {
		for _, n := range p.cast.resolve(e.Who, now) {
			if seen := p.load.shownOf(n); seen != "" {
				return false, seen
			}
		}
		return true, ""
	}},
	"held": {who: true, point: true, about: "WHO waits at the point", holds: func(p *player, e *Expectation, now Sight) (bool, string) {
		for _, n := range p.cast.resolve(e.Who, now) {
			if p.gate.Held(n, e.Point) == 0 {
				return false, fmt.Sprintf("%s is not held at %s", n, e.Point)
			}
		}
		return true, ""
	}},
	"refused": {count: true, about: "COUNT commands or writes of an older term were refused in the story so far", holds: func(p *player, e *Expectation, _ Sight) (bool, string) {
		n := p.rec.Refused() - p.refused
		return n >= e.Count, fmt.Sprintf("%d were refused", n)
	}},
	"frozen": {about: "the cluster protects itself: no slot moves", holds: func(_ *player, _ *Expectation, now Sight) (bool, string) { return now.Frozen, "not frozen" }},
	"partial": {about: "a slot is served without a session that could not be reached, and is shown as partial", holds: func(_ *player, _ *Expectation, now Sight) (bool, string) {
		return now.Partial > 0, "no slot is partial"
	}},
	"down": {who: true, about: "WHO has ended", holds: upOrDown(false)},
	"up":   {who: true, about: "WHO runs", holds: upOrDown(true)},
	"table of": {count: true, about: "the slot table is of a term of at least COUNT", holds: func(_ *player, e *Expectation, now Sight) (bool, string) {
		return now.Table.Epoch.Term >= uint64(e.Count), now.Table.Epoch.String()
	}},
}

func upOrDown(up bool) func(*player, *Expectation, Sight) (bool, string) {
	return func(p *player, e *Expectation, now Sight) (bool, string) {
		for _, n := range p.cast.resolve(e.Who, now) {
			if slices.Contains(now.Up, n) != up {
				return false, fmt.Sprintf("%s runs: %t", n, !up)
			}
		}
		return true, ""
	}
}

// conditionNames are sorted with the longer ones first, as a parser needs them.
func conditionNames() []string {
	out := slices.Sorted(maps.Keys(conditions))
	slices.SortStableFunc(out, func(a, b string) int { return len(strings.Fields(b)) - len(strings.Fields(a)) })
	return out
}

// open is an expectation that is being watched.
type open struct {
	Expectation
	line     int
	began    time.Time
	progress bool // one of those that follow every story
}

// look judges one expectation now; done says that it is decided.
func (p *player) look(o *open, now Sight) (done bool, failure error) {
	holds, why := conditions[o.What].holds(p, &o.Expectation, now)
	passed := time.Since(o.began)
	switch {
	case o.For > 0 && !holds:
		return true, fmt.Errorf("line %d: %s: not after %s: %s", o.line, o.Expectation, passed.Round(time.Millisecond), why)
	case o.For > 0:
		return passed >= o.For, nil
	case holds:
		return true, nil
	case passed > o.Within:
		return true, fmt.Errorf("line %d: %s: %s", o.line, o.Expectation, why)
	}
	return false, nil
}
