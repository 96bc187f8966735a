package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/outside"
)

// Traffic is a set of publishers, and a ledger that knows what each has published.
type Traffic struct {
	*Ledger
	publishers []publisher
}

type publisher struct {
	name, dataID string
	made         testbed.Publication
}

// NewTraffic returns a Traffic without publishers.
func NewTraffic() *Traffic { return &Traffic{Ledger: NewLedger()} }

// Publish registers n publishers, of each client in turn and per of them under each
// dataId of prefix, and waits until data nodes have stored all of them.
func (t *Traffic) Publish(ctx context.Context, prefix string, n, per int, clients ...Client) error {
	for i := range n {
		p := publisher{name: fmt.Sprintf("%s-p%d", prefix, i), dataID: DataID(prefix, i/per)}
		var err error
		if p.made, err = clients[i%len(clients)].Publish(ctx, p.dataID, []string{t.Publishing(p.name, p.dataID)}); err != nil {
			return err
		}
		t.publishers = append(t.publishers, p)
	}
	for _, p := range t.publishers {
		if err := p.made.Stored(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Watch makes a client subscribe to the first n dataIds of prefix.
func (t *Traffic) Watch(c Client, subscriber, prefix string, n int) error {
	for i := range n {
		id := DataID(prefix, i)
		t.Subscribing(subscriber, id)
		if err := c.Subscribe(id, func(d conclave.Datum) { t.Pushed(subscriber, id, d.Version, d.Values) }); err != nil {
			return err
		}
	}
	return nil
}

// Update makes the i-th publisher publish its next value.
func (t *Traffic) Update(i int) error {
	p := t.publishers[i%len(t.publishers)]
	return p.made.Update([]string{t.Publishing(p.name, p.dataID)})
}

// Run updates one publisher each tick until ctx ends.
func (t *Traffic) Run(ctx context.Context, tick time.Duration) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for i := 0; ; i += 7 { // not in the order of registration, to spread the updates over all slots
		if err := t.Update(i); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// During runs the traffic while do runs, then waits until all subscribers have
// received the newest values.
func (t *Traffic) During(ctx context.Context, tick time.Duration, do func() error) error {
	running, stop := context.WithCancel(ctx)
	var traffic sync.WaitGroup
	var failed error
	traffic.Go(func() { failed = t.Run(running, tick) })
	err := do()
	stop()
	traffic.Wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return t.AwaitSeen(ctx)
}

// Ledger records what publishers that stay have published and what subscribers have
// received, as a history that the checkers know: no push lacks a publisher (I7),
// versions rise (I11), and no publisher's value falls back (P2).
//
// It also measures how long each update takes to reach each subscriber. A publisher
// has one value, NAME#SEQ, where SEQ counts its updates.
type Ledger struct {
	record *check.Recorder

	mu        sync.Mutex              // guards the fields below
	published map[string][]time.Time  // when each was about to publish, by sequence - 1
	names     map[string][]string     // of the publishers, by dataId
	seen      map[list]map[string]int // the newest sequence received, by publisher
	delays    *Dist                   // since the last Phase
	pushes    int
	foreign   []string // what was pushed and never published there
}

// list is a subscription.
type list struct{ subscriber, dataID string }

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		record:    check.NewRecorder("load", testbed.Size{}),
		published: make(map[string][]time.Time), names: make(map[string][]string), seen: make(map[list]map[string]int), delays: NewDist(),
	}
}

// Publishing records that a publisher is about to publish its next value under
// a dataId, and returns that value.
func (l *Ledger) Publishing(name, dataID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.published[name] == nil {
		l.names[dataID] = append(l.names[dataID], name)
	}
	l.published[name] = append(l.published[name], time.Now())
	seq := len(l.published[name])
	value := fmt.Sprintf("%s#%d", name, seq)
	l.record.Op(check.Op{Client: name, Kind: check.OpPublish, Name: dataID, ID: name, Version: int64(seq), Values: []string{value}})
	return value
}

// Subscribing records that a subscriber subscribes to a dataId.
func (l *Ledger) Subscribing(subscriber, dataID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[list{subscriber, dataID}] = make(map[string]int)
}

// Pushed records a push.
func (l *Ledger) Pushed(subscriber, dataID string, version int64, values []string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Op(check.Op{Client: subscriber, Kind: check.OpPush, Name: dataID, ID: subscriber, Version: version, Values: values})
	l.pushes++
	seen := l.seen[list{subscriber, dataID}]
	for _, value := range values {
		name, seq, ok := check.ParseValue(value)
		at := l.published[name]
		if !ok || seen == nil || seq < 1 || seq > len(at) || !slices.Contains(l.names[dataID], name) {
			l.foreign = append(l.foreign, fmt.Sprintf("%s is pushed %q of %s, which was not published there or not subscribed", subscriber, value, dataID))
			continue
		}
		for missed := seen[name] + 1; missed <= seq; missed++ {
			l.delays.Add(now.Sub(at[missed-1]))
		}
		seen[name] = max(seen[name], seq)
	}
}

// Broken returns the violations so far, by checker the first ones.
func (l *Ledger) Broken() (out []string) {
	l.mu.Lock()
	out = slices.Clone(l.foreign)
	l.mu.Unlock()
	noEvents := func(func(time.Time, trace.Claim)) (bool, error) { return false, nil }
	h, _ := l.record.SoFar(false, noEvents) // without events nothing fails
	for _, v := range check.Run(h, "I7", "I11", "P2") {
		for _, x := range v.Violations {
			out = append(out, fmt.Sprintf("%s: %s", v.ID, x.What))
		}
	}
	return out
}

// Pushes returns the number of pushes so far.
func (l *Ledger) Pushes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pushes
}

// Behind returns the number of pairs of subscriber and publisher for which the
// subscriber has not received the newest value.
func (l *Ledger) Behind() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, seen := range l.seen {
		for _, name := range l.names[of.dataID] {
			if seen[name] < len(l.published[name]) {
				n++
			}
		}
	}
	return n
}

// AwaitSeen waits until all subscribers have received the newest values.
func (l *Ledger) AwaitSeen(ctx context.Context) error {
	if err := outside.Until(ctx, time.Millisecond, func() (bool, error) { return l.Behind() == 0, nil }); err != nil {
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
