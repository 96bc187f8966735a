package scenario

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"conclave"
	"conclave/testbed"
	"conclave/testbed/check"
)

// Traffic runs clients, of a scenario or, for a cluster that is watched for a long time,
// without one. Each publishes under some names and subscribes to all. A value names its
// publisher and the number of its changes: "client-2/7#13" is the 13th value of the
// registration client-2/7. So a pushed list shows by itself what is missing and what is
// stale.
type Traffic struct {
	of      Load
	seed    uint64
	anyOf   bool // a list is full if each publisher is in it, with any of its values
	cluster testbed.Cluster
	rec     Recorder
	working sync.WaitGroup
	changes *semaphore.Weighted // whoever changes something has a part of it, Pause takes all of them

	seen  map[string]string        // of the caller of Look: each client's connections, as they were last recorded
	wrong map[difference]time.Time // and since which look each list has differed so

	mu      sync.Mutex         // guards the rest
	clients map[string]*worker // clients that stay
	guests  map[string]*worker // see visit.go
	live    map[string]string  // tag -> value: published by live clients, and not withdrawn
	names   map[string]string  // tag -> name
	ending  map[string]bool    // tags that are being removed: they may be seen or not
	last    map[[2]string][]string
	fullAt  map[string]time.Time // when a list was last seen full
	calm    context.CancelFunc   // ends the burst; nil: there is none
}

// difference is a registration that is not in a list as often as it is published.
type difference struct{ list, tag string }

// Recorder records what clients do and see; a [check.Recorder] is one.
type Recorder interface{ Op(check.Op) }

// everyone is the size of Traffic.changes.
const everyone = 1 << 30

// worker is one client.
type worker struct {
	name   string
	client testbed.Client
	pubs   []*registration
	rand   *rand.Rand
	gone   chan struct{} // closed when it is killed
	leave  func()        // asks a guest to leave now
	linger time.Duration // with which it ends
	once   sync.Once
	dead   bool // killed, or it has left; guarded by the Traffic's mutex
}

// registration is one registration of a worker.
type registration struct {
	name, tag string
	pub       testbed.Publication
	count     int
}

func newTraffic(of Load, d testbed.Cluster, rec Recorder, seed uint64) *Traffic {
	return &Traffic{
		of: of, seed: seed, cluster: d, rec: rec, seen: map[string]string{}, wrong: map[difference]time.Time{}, changes: semaphore.NewWeighted(everyone), clients: map[string]*worker{}, guests: map[string]*worker{}, live: map[string]string{}, names: map[string]string{},
		ending: map[string]bool{}, last: map[[2]string][]string{}, fullAt: map[string]time.Time{},
	}
}

func (l *Traffic) serviceName(i int) string { return fmt.Sprintf("%sservice-%d", l.of.Group, i+1) }

// Begin starts the clients. They work until ctx ends; Wait joins them.
func (l *Traffic) Begin(ctx context.Context) error {
	for i := range l.of.Clients {
		name := fmt.Sprintf("client-%d", i+1)
		c, err := l.start(name, i+1)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		w := &worker{name: name, client: c, rand: rand.New(rand.NewPCG(l.seed, uint64(i+1))), gone: make(chan struct{})}
		l.mu.Lock()
		l.clients[name] = w
		l.mu.Unlock()
		for n := range l.of.Names {
			if err := l.subscribe(w, l.serviceName(n)); err != nil {
				return err
			}
		}
		for n := range l.of.Names {
			for k := range min(cmp.Or(l.of.Each, 2), l.of.Clients) {
				if (n+k)%l.of.Clients == i {
					w.pubs = append(w.pubs, &registration{name: l.serviceName(n)})
				}
			}
		}
		l.working.Go(func() { l.work(ctx, w) })
	}
	l.working.Go(func() { l.visits(ctx, l.of.Guests, "guest", l.guest) })
	l.working.Go(func() { l.visits(ctx, l.of.Readers, check.Reader, l.read) })
	l.working.Go(func() { l.visits(ctx, l.of.Rolling, "release", l.guest) })
	return nil
}

// start starts the n-th client of a kind.
func (l *Traffic) start(name string, n int) (testbed.Client, error) {
	switch {
	case l.of.HTTP > 0 && n%l.of.HTTP == 0:
		return l.cluster.Capabilities().ByHTTP(name)
	case l.of.Sofa > 0 && (n-1)%l.of.Sofa == 0:
		return l.cluster.Capabilities().OfSofa(name)
	}
	return l.cluster.Client(name)
}

// Wait waits until no client works any more.
func (l *Traffic) Wait() { l.working.Wait() }

func (l *Traffic) subscribe(w *worker, name string) error {
	return w.client.Subscribe(name, func(d conclave.Datum) {
		l.rec.Op(check.Op{Client: w.name, Kind: check.OpPush, Name: name, ID: w.name, Version: d.Version, Values: d.Values})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last[[2]string{w.name, name}] = slices.Sorted(slices.Values(d.Values))
	})
}

// about draws a duration from half of d to one and a half times d.
func about(r *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(r.Int64N(int64(d)+1))
}

// work publishes, changes and replaces until ctx ends or the client is killed.
func (l *Traffic) work(ctx context.Context, w *worker) {
	for _, o := range w.pubs {
		l.publish(ctx, w, o)
	}
	if len(w.pubs) == 0 {
		return
	}
	next := func(d time.Duration) time.Time { // never: far away
		if d == 0 {
			return time.Now().Add(1000 * time.Hour)
		}
		return time.Now().Add(about(w.rand, d))
	}
	change, replace := next(l.of.Every), next(l.of.Replace)
	for {
		at := change
		if replace.Before(at) {
			at = replace
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-timer.C:
		case <-w.gone:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if l.changes.Acquire(ctx, 1) != nil {
			return
		}
		o := w.pubs[w.rand.IntN(len(w.pubs))]
		if at.Equal(change) {
			l.change(ctx, w, o)
			change = next(l.of.Every)
		} else {
			l.withdraw(ctx, w, o)
			l.publish(ctx, w, o)
			replace = next(l.of.Replace)
		}
		l.changes.Release(1)
	}
}

// publish makes a registration and waits until a data node has stored it.
func (l *Traffic) publish(ctx context.Context, w *worker, o *registration) {
	if l.register(ctx, w, o) {
		l.await(ctx, w, o)
	}
}

// register makes a registration under a tag that was never used before, and
// reports whether the client has taken it.
func (l *Traffic) register(ctx context.Context, w *worker, o *registration) bool {
	o.count = 1
	l.mu.Lock()
	if w.dead { // killed meanwhile
		l.mu.Unlock()
		o.pub = nil
		return false
	}
	o.tag = fmt.Sprintf("%s/%d", w.name, len(l.names)+1)
	value := l.value(o)
	l.live[o.tag], l.names[o.tag] = value, o.name
	l.mu.Unlock()
	l.rec.Op(check.Op{Client: w.name, Kind: check.OpPublish, Name: o.name, ID: o.tag, Version: 1, Values: []string{value}})
	pub, err := w.client.Publish(ctx, o.name, []string{value})
	if err != nil { // the scenario has ended, or the client was killed
		l.forget(o.tag)
		o.pub = nil
		return false
	}
	o.pub = pub
	return true
}

// value returns the registration's value at its count, which leading zeros make as
// long as Load.Bytes; see check.ParseValue.
func (l *Traffic) value(o *registration) string {
	return fmt.Sprintf("%s#%0*d", o.tag, max(1, l.of.Bytes-len(o.tag)-1), o.count)
}

func (l *Traffic) change(ctx context.Context, w *worker, o *registration) (stored bool) {
	return l.update(w, o) && l.await(ctx, w, o)
}

// update changes the value of a registration, and reports whether the client has
// taken it.
func (l *Traffic) update(w *worker, o *registration) bool {
	if o.pub == nil {
		return false
	}
	o.count++
	value := l.value(o)
	l.mu.Lock()
	if w.dead { // killed meanwhile
		l.mu.Unlock()
		return false
	}
	l.live[o.tag] = value
	l.mu.Unlock()
	l.rec.Op(check.Op{Client: w.name, Kind: check.OpPublish, Name: o.name, ID: o.tag, Version: int64(o.count), Values: []string{value}})
	return o.pub.Update([]string{value}) == nil
}

// withdraw reports whether a data node has acknowledged the withdrawal.
func (l *Traffic) withdraw(ctx context.Context, w *worker, o *registration) (stored bool) {
	if o.pub == nil {
		return true
	}
	return l.unregister(w, o) && l.await(ctx, w, o)
}

// unregister withdraws a registration, and reports whether the client has taken
// that.
func (l *Traffic) unregister(w *worker, o *registration) bool {
	l.forget(o.tag)
	l.rec.Op(check.Op{Client: w.name, Kind: check.OpWithdraw, Name: o.name, ID: o.tag, Version: int64(o.count) + 1})
	if err := o.pub.Withdraw(); err != nil {
		return false
	}
	o.count++
	return true
}

func (l *Traffic) await(ctx context.Context, w *worker, o *registration) (stored bool) {
	limited, cancel := l.within(ctx, check.StoredTimeout)
	defer cancel()
	err := o.pub.Stored(limited)
	if ctx.Err() != nil {
		return false
	}
	kind := check.OpStored
	if err != nil {
		kind = check.OpUnheard
	}
	l.rec.Op(check.Op{Client: w.name, Kind: kind, Name: o.name, ID: o.tag, Version: int64(o.count), Refused: refused(err), Err: err})
	return err == nil
}

// within bounds how long an impatient client waits.
func (l *Traffic) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if l.of.Patient {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// forget records that a tag may be missing from now on.
func (l *Traffic) forget(tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, tag)
	l.ending[tag] = true
}

// kill ends a client's work: from now on its registrations may be seen or not.
func (l *Traffic) kill(name string) {
	l.mu.Lock()
	w := cmp.Or(l.clients[name], l.guests[name], &worker{gone: make(chan struct{})})
	lease, _ := w.lease()
	linger, _ := w.lingers()
	lease = max(lease, linger)
	for _, tag := range slices.Sorted(maps.Keys(l.live)) {
		if strings.HasPrefix(tag, name+"/") {
			delete(l.live, tag)
			l.ending[tag] = true
			l.rec.Op(check.Op{Client: name, Kind: check.OpWithdraw, Name: l.names[tag], ID: tag, Linger: w.linger, Lease: lease})
		}
	}
	delete(l.clients, name)
	delete(l.guests, name)
	w.dead = true
	l.mu.Unlock()
	w.once.Do(func() { close(w.gone) })
}

// wanted returns what live clients publish under a name now, sorted; mu is held.
func (l *Traffic) wanted(name string) []string {
	out := []string{}
	for tag, value := range l.live {
		if l.names[tag] == name {
			out = append(out, value)
		}
	}
	slices.Sort(out)
	return out
}

// full reports whether every subscriber sees exactly what live clients publish,
// and otherwise describes a difference. Values that are being removed do not
// count.
func (l *Traffic) full() (bool, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	short := map[string]bool{}
	difference := ""
	for client, name := range l.short() {
		short[check.ListName(client, name)] = true
		if difference == "" {
			difference = fmt.Sprintf("%s sees %s as %v, published are %v", client, name, l.settled(l.last[[2]string{client, name}]), l.wanted(name))
		}
	}
	now := time.Now()
	for i := range l.of.Names {
		for client := range l.clients {
			if list := check.ListName(client, l.serviceName(i)); !short[list] {
				l.fullAt[list] = now
			}
		}
	}
	return difference == "", difference
}

// changing is how long a list may be short without being missing: its next
// value is on the way.
const changing = time.Second

// lacking returns the names of the lists that are not full, and were not at any call of
// full in the time before.
func (l *Traffic) lacking(limit time.Duration) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for client, name := range l.short() {
		if list := check.ListName(client, name); time.Since(l.fullAt[list]) > limit {
			out = append(out, list)
		}
	}
	return out
}

// short yields the subscriber and the dataId of each list that is not full, in
// order.
func (l *Traffic) short() iter.Seq2[string, string] {
	return func(yield func(client, name string) bool) {
		for i := range l.of.Names {
			name := l.serviceName(i)
			want := l.wanted(name)
			for _, client := range slices.Sorted(maps.Keys(l.clients)) {
				if !l.same(l.settled(l.last[[2]string{client, name}]), want) && !yield(client, name) {
					return
				}
			}
		}
	}
}

// same reports whether a list is what is wanted; both are sorted.
func (l *Traffic) same(list, want []string) bool {
	if l.anyOf {
		return slices.Equal(tags(list), tags(want))
	}
	return slices.Equal(list, want)
}

// tags returns the publishers of values, sorted.
func tags(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i], _, _ = check.ParseValue(v)
	}
	slices.Sort(out)
	return out
}

// shownOf describes a value of the client that some subscriber sees, or returns
// "".
func (l *Traffic) shownOf(client string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.of.Names {
		for _, by := range slices.Sorted(maps.Keys(l.clients)) {
			for _, value := range l.last[[2]string{by, l.serviceName(i)}] {
				if strings.HasPrefix(value, client+"/") {
					return fmt.Sprintf("%s sees %s of %s", by, value, l.serviceName(i))
				}
			}
		}
	}
	return ""
}

// ended returns the tags that may be missing by now.
func (l *Traffic) ended() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.ending)
}

// shows reports whether a client that stays sees a value of one of the tags.
func (l *Traffic) shows(tags map[string]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for list, values := range l.last {
		if l.clients[list[0]] == nil {
			continue
		}
		for _, value := range values {
			if tag, _, ok := check.ParseValue(value); ok && tags[tag] {
				return true
			}
		}
	}
	return false
}

// settled returns the values that are not being removed.
func (l *Traffic) settled(values []string) []string {
	out := []string{}
	for _, v := range values {
		if tag, _, ok := check.ParseValue(v); !ok || !l.ending[tag] {
			out = append(out, v)
		}
	}
	return out
}

// connected reports whether each client that stays is connected to a session
// that is not dead, and otherwise names one that is not.
func (l *Traffic) connected(dead map[string]bool) (bool, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.clients)) {
		if !slices.ContainsFunc(l.clients[name].client.Connected(), func(n conclave.NodeID) bool { return !dead[n.Name] }) {
			return false, name + " is not connected"
		}
	}
	return true, ""
}

// sessionsOf returns the names of the sessions that know a client.
func (l *Traffic) sessionsOf(client string) (out []string) {
	l.mu.Lock()
	w := l.clients[client]
	l.mu.Unlock()
	if w != nil {
		for _, n := range w.client.Connected() {
			out = append(out, n.Name)
		}
	}
	return out
}

// sorted returns some of its clients, sorted by name.
func (l *Traffic) sorted(clients map[string]*worker) (out []*worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		out = append(out, clients[name])
	}
	return out
}

// connections records which sessions know each client, if that has changed.
func (l *Traffic) connections() {
	for _, w := range append(l.sorted(l.clients), l.sorted(l.guests)...) {
		var at []string
		for _, n := range w.client.Connected() {
			at = append(at, n.String())
		}
		if all := strings.Join(at, " "); all != l.seen[w.name] {
			l.seen[w.name] = all
			_, left := w.lease()
			_, stays := w.lingers()
			l.rec.Op(check.Op{Client: w.name, Kind: check.OpConnected, Values: at, Lease: left, Linger: stays})
		}
	}
}
