package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/client"
	"conclave/testbed"
)

// Load is how much work the clients do.
type Load struct {
	Services    int           // dataIds
	Publishers  int           // clients that stay
	Each        int           // registrations of each
	Subscribers int           // clients that stay and subscribe to every dataId
	Visitors    int           // clients that publish, withdraw and leave
	Readers     int           // clients that subscribe in the middle
	Every       time.Duration // mean time between two changes of a publisher
}

// DefaultLoad has registrations in about half of 256 slots, so that work for
// each slot in use (comparisons, hand-overs) takes long enough to coincide with
// faults, and changes each registration every five seconds.
func DefaultLoad() Load {
	return Load{Services: 160, Publishers: 12, Each: 40, Subscribers: 4, Visitors: 16, Readers: 3, Every: 120 * time.Millisecond}
}

// load runs the clients.
type load struct {
	Load
	cluster testbed.RealCluster
	oracle  *Oracle
	seed    uint64
	gate    *gate

	working sync.WaitGroup
	end     context.CancelFunc
	names   atomic.Int64 // of registrations, readers and probes

	mu     sync.Mutex // guards the rest
	failed error      // a client could not be started: the run shows nothing
	stored int        // lasting registrations that were stored once
}

func newLoad(size Load, c testbed.RealCluster, o *Oracle, seed uint64) *load {
	return &load{Load: size, cluster: c, oracle: o, seed: seed, gate: newGate()}
}

func service(i int) string { return fmt.Sprintf("service-%d", i+1) }

// begin starts the clients.
func (l *load) begin(ctx context.Context) {
	ctx, l.end = context.WithCancel(ctx)
	start := func(stream uint64, run func(context.Context, *rand.Rand)) {
		r := rand.New(rand.NewPCG(l.seed, stream))
		l.working.Go(func() { run(ctx, r) })
	}
	for i := range l.Subscribers {
		start(uint64(1000+i), func(ctx context.Context, _ *rand.Rand) { l.subscribe(ctx, fmt.Sprintf("subscriber-%d", i+1)) })
	}
	for i := range l.Publishers {
		start(uint64(2000+i), func(ctx context.Context, r *rand.Rand) { l.publish(ctx, r, i) })
	}
	for i := range l.Visitors {
		start(uint64(3000+i), func(ctx context.Context, r *rand.Rand) { l.visit(ctx, r, fmt.Sprintf("visitor-%d", i+1)) })
	}
	for i := range l.Readers {
		start(uint64(4000+i), func(ctx context.Context, r *rand.Rand) { l.read(ctx, r, fmt.Sprintf("reader-%d", i+1)) })
	}
}

// finish ends the clients.
func (l *load) finish() {
	l.end()
	l.working.Wait()
}

// fail records that a client could not be started.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// ready reports whether every lasting registration was stored.
func (l *load) ready() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored >= l.Publishers*l.Each, l.failed
}

// actor is a client that can be killed.
type actor struct {
	*client.Client
	cancel context.CancelFunc
	done   chan struct{}
}

// actor starts a client on a host.
func (l *load) actor(host, name string) (*actor, error) {
	cfg, err := l.cluster.ClientConfig(host)
	if err != nil {
		return nil, err
	}
	cfg.Name = name
	sdk, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &actor{Client: sdk, cancel: cancel, done: make(chan struct{})}
	go func() { // joined by die
		defer close(a.done)
		_ = sdk.Run(ctx) // ended by Close or die
	}()
	return a, nil
}

// die ends the client as if its process had been killed. After Close it only
// waits for its end.
func (a *actor) die() {
	a.cancel()
	<-a.done
}

// pause waits for a random time around mean; false: ctx ended.
func pause(ctx context.Context, r *rand.Rand, mean time.Duration) bool {
	timer := time.NewTimer(mean/2 + time.Duration(r.Int64N(int64(mean)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// subscribe runs a client that subscribes to everything and stays.
func (l *load) subscribe(ctx context.Context, name string) {
	a, err := l.actor(name, name)
	if err != nil {
		l.fail(err)
		return
	}
	defer a.die()
	for i := range l.Services {
		if err := l.watch(a, name, service(i), true, nil); err != nil {
			l.fail(err)
			return
		}
	}
	<-ctx.Done()
}

// watch subscribes and passes every push to the oracle.
func (l *load) watch(a *actor, name, data string, lasting bool, seen func(conclave.Datum)) error {
	l.oracle.Subscribing(name, data, lasting)
	_, err := a.Subscribe(data, client.OnPush(func(d conclave.Datum) {
		l.oracle.Pushed(name, data, d.Version, d.Values)
		if seen != nil {
			seen(d)
		}
	}))
	return err
}
