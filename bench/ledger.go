package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ledger knows what live publishers have published and judges, push by push,
// what subscribers see of it while the cluster is being broken:
//
//   - no push is empty, and none lacks a publisher that this subscriber has seen
//     before, for none of them withdraws (invariant I7);
//   - versions rise, per subscriber and dataId (I11);
//   - no publisher's value falls back to an older one (I13).
//
// It also times how long each update took to reach each subscriber. A publisher
// has one value, NAME/SEQ, which counts its updates.
type Ledger struct {
	now func() time.Time

	mu         sync.Mutex // guards the rest
	publishers map[string]*published
	views      map[string]*view // by subscriber
	delays     *Dist            // since the last Phase
	rules      [rules]Invariant
	pushes     int
	broken     []string
}

// Invariant is one rule, how often it was judged, and how often it did not hold.
// A run that judged nothing proves nothing.
type Invariant struct {
	Name   string `json:"name"`
	Checks int    `json:"checks"`
	Broken int    `json:"broken"`
}

// The rules, in the order in which they are listed.
const (
	ruleMissing = iota
	ruleEmpty
	ruleVersion
	ruleBack
	ruleForeign
	rules
)

var ruleNames = [rules]string{
	ruleMissing: "no subscriber sees a live publisher missing",
	ruleEmpty:   "no push is empty while publishers live",
	ruleVersion: "versions only rise, per subscriber and dataId",
	ruleBack:    "no publisher's value falls back to an older one",
	ruleForeign: "nothing is pushed that was not published there",
}

type published struct {
	dataID string
	at     []time.Time // at[seq-1] is when seq was about to be published
}

// view is what one subscriber has seen.
type view struct {
	dataIDs map[string]bool
	version map[string]int64          // by dataId
	seen    map[string]map[string]int // dataId, publisher: sequence
}

// NewLedger is empty.
func NewLedger() *Ledger {
	return &Ledger{now: time.Now, publishers: make(map[string]*published), views: make(map[string]*view), delays: NewDist()}
}

// Publishing notes that a publisher is about to publish its next value under a
// dataId, and returns that value.
func (l *Ledger) Publishing(name, dataID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.publishers[name]
	if p == nil {
		p = &published{dataID: dataID}
		l.publishers[name] = p
	}
	p.at = append(p.at, l.now())
	return name + "/" + strconv.Itoa(len(p.at))
}

// Subscribing notes that a subscriber is to see the dataIds.
func (l *Ledger) Subscribing(subscriber string, dataIDs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &view{dataIDs: make(map[string]bool), version: make(map[string]int64), seen: make(map[string]map[string]int)}
	for _, d := range dataIDs {
		v.dataIDs[d] = true
		v.seen[d] = make(map[string]int)
	}
	l.views[subscriber] = v
}

// Pushed judges one push.
func (l *Ledger) Pushed(subscriber, dataID string, version int64, values []string) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.views[subscriber]
	if v == nil || !v.dataIDs[dataID] {
		l.breaks(ruleForeign, "%s was pushed %s, which it has not subscribed", subscriber, dataID)
		return
	}
	l.pushes++
	l.rules[ruleVersion].Checks++
	if version <= v.version[dataID] {
		l.breaks(ruleVersion, "%s: %s came as version %d after %d", subscriber, dataID, version, v.version[dataID])
	}
	v.version[dataID] = version
	before, here := v.seen[dataID], make(map[string]bool, len(values))
	for _, value := range values {
		l.rules[ruleForeign].Checks++
		name, rest, _ := strings.Cut(value, "/")
		seq, err := strconv.Atoi(rest)
		p := l.publishers[name]
		if err != nil || p == nil || p.dataID != dataID || seq < 1 || seq > len(p.at) {
			l.breaks(ruleForeign, "%s: %s holds %q, which nobody published there", subscriber, dataID, value)
			continue
		}
		here[name] = true
		l.rules[ruleBack].Checks++
		if seq < before[name] {
			l.breaks(ruleBack, "%s: %s of %s fell back from %d to %d", subscriber, name, dataID, before[name], seq)
			continue
		}
		for missed := before[name] + 1; missed <= seq; missed++ {
			l.delays.Add(now.Sub(p.at[missed-1]))
		}
		before[name] = seq
	}
	l.rules[ruleEmpty].Checks++
	if len(values) == 0 && len(before) > 0 {
		l.breaks(ruleEmpty, "%s: %s came empty, %d publishers live", subscriber, dataID, len(before))
		return
	}
	missing := 0
	for name := range before {
		l.rules[ruleMissing].Checks++
		if !here[name] {
			missing++
		}
	}
	if missing > 0 {
		l.breaks(ruleMissing, "%s: %s came without %d of %d publishers", subscriber, dataID, missing, len(before))
	}
}

// breaks notes a broken invariant; mu is held.
func (l *Ledger) breaks(rule int, format string, args ...any) {
	l.rules[rule].Broken++
	l.broken = append(l.broken, fmt.Sprintf("%s  ", l.now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

// Broken lists what did not hold, in the order in which it was seen.
func (l *Ledger) Broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.broken...)
}

// Invariants lists the rules with what was judged so far.
func (l *Ledger) Invariants() []Invariant {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Invariant, rules)
	for i, r := range l.rules {
		r.Name = ruleNames[i]
		out[i] = r
	}
	return out
}

// Pushes counts what was pushed so far.
func (l *Ledger) Pushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pushes
}

// Behind counts the pairs of subscriber and publisher of which the newest value
// has not been seen; 0: everybody sees everything.
func (l *Ledger) Behind() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, v := range l.views {
		for name, p := range l.publishers {
			if v.dataIDs[p.dataID] && v.seen[p.dataID][name] < len(p.at) {
				n++
			}
		}
	}
	return n
}

// AwaitSeen waits until everybody sees everything.
func (l *Ledger) AwaitSeen(ctx context.Context) error {
	err := await(ctx, time.Millisecond, "everybody to see everything", func() bool { return l.Behind() == 0 })
	if err != nil {
		return fmt.Errorf("%d values have not reached their subscribers: %w", l.Behind(), err)
	}
	return nil
}

// Mark remembers what has been published until now.
func (l *Ledger) Mark() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark := make(map[string]int, len(l.publishers))
	for name, p := range l.publishers {
		mark[name] = len(p.at)
	}
	return mark
}

// AwaitMark waits until everybody has seen what was published until a mark, also
// while publishing goes on.
func (l *Ledger) AwaitMark(ctx context.Context, mark map[string]int) error {
	return await(ctx, 5*time.Millisecond, "everybody to see what was published", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, v := range l.views {
			for name, seq := range mark {
				if id := l.publishers[name].dataID; v.dataIDs[id] && v.seen[id][name] < seq {
					return false
				}
			}
		}
		return true
	})
}

// Phase returns how long updates took since the last call, and begins anew.
// Await that everybody sees everything first, or the worst are not in it.
func (l *Ledger) Phase() *Dist {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.delays
	l.delays = NewDist()
	return d
}
