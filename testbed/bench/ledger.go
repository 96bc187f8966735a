package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ledger records what live publishers have published and checks every push that
// subscribers receive while faults are injected:
//
//   - no push is empty or lacks a publisher that this subscriber has seen before,
//     because no publisher withdraws (invariant I7);
//   - versions rise, per subscriber and dataId (I11);
//   - no publisher's value falls back to an older one (I13).
//
// It also measures how long each update takes to reach each subscriber. A
// publisher has one value, NAME/SEQ, where SEQ counts its updates.
type Ledger struct {
	now func() time.Time

	mu         sync.Mutex // guards the fields below
	publishers map[string]*published
	views      map[string]*view // by subscriber
	delays     *Dist            // since the last Phase
	pushes     int
	broken     []string
}

type published struct {
	dataID string
	at     []time.Time // at[seq-1] is the time just before seq was published
}

// view is what one subscriber has received.
type view struct {
	dataIDs map[string]bool
	version map[string]int64          // by dataId
	seen    map[string]map[string]int // dataId, publisher: sequence
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{now: time.Now, publishers: make(map[string]*published), views: make(map[string]*view), delays: NewDist()}
}

// Publishing records that a publisher is about to publish its next value under
// a dataId, and returns that value.
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

// Subscribing records that a subscriber subscribes to the dataIds.
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

// Pushed checks one push.
func (l *Ledger) Pushed(subscriber, dataID string, version int64, values []string) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.views[subscriber]
	if v == nil || !v.dataIDs[dataID] {
		l.breaks("%s received %s, to which it has not subscribed", subscriber, dataID)
		return
	}
	l.pushes++
	if version <= v.version[dataID] {
		l.breaks("%s: %s was pushed with version %d after %d", subscriber, dataID, version, v.version[dataID])
	}
	v.version[dataID] = version
	before, here := v.seen[dataID], make(map[string]bool, len(values))
	for _, value := range values {
		name, rest, _ := strings.Cut(value, "/")
		seq, err := strconv.Atoi(rest)
		p := l.publishers[name]
		if err != nil || p == nil || p.dataID != dataID || seq < 1 || seq > len(p.at) {
			l.breaks("%s: %s contains %q, which was not published there", subscriber, dataID, value)
			continue
		}
		here[name] = true
		if seq < before[name] {
			l.breaks("%s: %s of %s fell back from %d to %d", subscriber, name, dataID, before[name], seq)
			continue
		}
		for missed := before[name] + 1; missed <= seq; missed++ {
			l.delays.Add(now.Sub(p.at[missed-1]))
		}
		before[name] = seq
	}
	if len(values) == 0 && len(before) > 0 {
		l.breaks("%s: %s was pushed empty with %d live publishers", subscriber, dataID, len(before))
		return
	}
	missing := 0
	for name := range before {
		if !here[name] {
			missing++
		}
	}
	if missing > 0 {
		l.breaks("%s: %s was pushed without %d of %d publishers", subscriber, dataID, missing, len(before))
	}
}

// breaks records a violation. The caller holds mu.
func (l *Ledger) breaks(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf("%s  ", l.now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

// Broken returns the violations in the order in which they were found.
func (l *Ledger) Broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.broken...)
}

// Pushes returns the number of pushes so far.
func (l *Ledger) Pushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pushes
}

// Behind returns the number of pairs of subscriber and publisher for which the
// subscriber has not received the newest value.
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

// AwaitSeen waits until all subscribers have received the newest values.
func (l *Ledger) AwaitSeen(ctx context.Context) error {
	err := await(ctx, time.Millisecond, "all subscribers to receive the newest values", func() bool { return l.Behind() == 0 })
	if err != nil {
		return fmt.Errorf("%d values have not reached their subscribers: %w", l.Behind(), err)
	}
	return nil
}

// Phase returns how long updates took since the last call, and starts a new
// phase. Call AwaitSeen first, or the slowest updates are not included.
func (l *Ledger) Phase() *Dist {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.delays
	l.delays = NewDist()
	return d
}
