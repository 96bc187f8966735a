package data

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/data/store"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// follows keeps this node's copies current: it has one puller, with one stream,
// for each node that leads slots which this node follows.
type follows struct {
	config    Config
	view      *wire.View
	replicas  *replicas
	rand      func() *rand.Rand // a random source for one puller
	data      func(address string) wirev1connect.DataServiceClient
	notes     *notes
	caughtUp  func() // is called when a copy has become complete
	migrating func() // is called when a slot that is handed over has got a part of its feed
	wake      signal.Signal
	beats     *signal.Ticks // of this node's loops

	mu   sync.Mutex // guards the rest
	want map[conclave.NodeID]map[int]conclave.Epoch
	all  map[conclave.NodeID]*puller
}

// puller reads all feeds of one leader node.
type puller struct {
	*follows
	leader conclave.NodeID
	random *rand.Rand
	wake   signal.Signal
	stop   context.CancelFunc

	mu           sync.Mutex // guards the rest
	want         map[int]conclave.Epoch
	retry        map[int]bool      // slots to request again: refused, or with a gap
	reload       map[int]bool      // slots of which the whole copy is awaited: it differed from the leader's
	differed     map[int]time.Time // when it did last
	lastReceived time.Time         // when the leader last sent anything; before that, when it was asked
	received     bool              // the leader has sent something
}

// set sets what this node follows from now on: for each leader, the slots and
// their epochs.
func (f *follows) set(want map[conclave.NodeID]map[int]conclave.Epoch) {
	f.mu.Lock()
	f.want = want
	f.mu.Unlock()
	f.wake.Set()
}

func (f *follows) of(leader conclave.NodeID) *puller {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[leader]
}

// lag returns how long nothing has been received from a leader, or 0 if that is
// explained by the time between two beats.
func (f *follows) lag(leader conclave.NodeID) time.Duration {
	p := f.of(leader)
	if p == nil {
		return 0 // the replica itself knows since when it has not been fed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if silent := time.Since(p.lastReceived); silent > f.config.Beat*3/2 {
		return silent
	}
	return 0
}

// receivedSince reports whether a leader has sent anything after a time.
func (f *follows) receivedSince(leader conclave.NodeID, after time.Time) bool {
	p := f.of(leader)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received && p.lastReceived.After(after)
}

// run starts and stops pullers as set requires, and waits for them at the end.
func (f *follows) run(ctx context.Context) {
	var pulling sync.WaitGroup
	defer pulling.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		f.mu.Lock()
		for _, leader := range sortedNodes(f.want) {
			p := f.all[leader]
			if p == nil {
				pctx, stop := context.WithCancel(ctx)
				p = &puller{follows: f, leader: leader, random: f.rand(), wake: signal.New(), stop: stop, retry: map[int]bool{}, reload: map[int]bool{}, differed: map[int]time.Time{}, lastReceived: time.Now()}
				f.all[leader] = p
				pulling.Go(func() { p.run(pctx) })
			}
			p.set(f.want[leader])
		}
		for leader, p := range f.all {
			if len(f.want[leader]) == 0 {
				p.stop()
				delete(f.all, leader)
			}
		}
		f.mu.Unlock()
		select {
		case <-f.wake.C():
		case <-ctx.Done():
			return
		}
	}
}

func (p *puller) set(want map[int]conclave.Epoch) {
	p.mu.Lock()
	same := maps.Equal(p.want, want)
	p.want = want
	p.mu.Unlock()
	if !same {
		p.wake.Set()
	}
}

// run keeps a stream to the leader open while anything is wanted from it.
func (p *puller) run(ctx context.Context) {
	pause := 10 * time.Millisecond
	for {
		if m, ok := p.view.State().Members.Find(p.leader.Name); ok && m.Node == p.leader {
			received, err := p.pull(ctx, m.Address)
			if ctx.Err() != nil {
				return
			}
			p.config.Logger.Debug("feed broke", "leader", p.leader.Name, "error", err)
			if received {
				pause = 10 * time.Millisecond
			}
		}
		select {
		case <-time.After(pause/2 + time.Duration(p.random.Int64N(int64(pause)))):
		case <-p.wake.C():
			p.wake.Set() // for the next stream
			if sleep.For(ctx, time.Millisecond) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
		pause = sleep.Longer(pause, 10*time.Millisecond, 500*time.Millisecond)
	}
}

// pull reads one stream until it breaks: this goroutine sends requests, another
// one receives. received reports whether the leader sent anything.
func (p *puller) pull(ctx context.Context, address string) (received bool, err error) {
	var messages atomic.Bool
	defer func() { received = messages.Load() }()
	ctx, cancel := context.WithCancelCause(ctx)
	stream := p.data(address).Replicate(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			e, err := stream.Receive()
			if err != nil {
				cancel(wire.FromConnect(err))
				return
			}
			messages.Store(true)
			p.apply(e)
		}
	})
	asked := map[int]conclave.Epoch{}
	defer func() {
		cancel(nil)
		_ = stream.CloseRequest() // it is broken, or given up
		reading.Wait()
		_ = stream.CloseResponse()
		p.replicas.detach(p.leader)
	}()

	due := p.beats.Next()
	for {
		for _, ask := range p.changes(asked) {
			if err := stream.Send(ask); err != nil {
				return false, err
			}
		}
		select {
		case <-p.wake.C():
		case <-due: // request again what was refused
			due = p.beats.Next()
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// changes returns the requests that turn asked into what is wanted now, and
// updates asked.
func (p *puller) changes(asked map[int]conclave.Epoch) []*wirev1.ReplicateRequest {
	p.mu.Lock()
	want, retry, reload := p.want, p.retry, maps.Clone(p.reload)
	p.retry = map[int]bool{}
	p.mu.Unlock()
	self := wire.NodeOut(p.config.Node)
	var out []*wirev1.ReplicateRequest
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		if _, ok := want[id]; !ok {
			delete(asked, id)
			out = append(out, &wirev1.ReplicateRequest{Follower: self, Ask: &wirev1.ReplicateRequest_Unfollow{Unfollow: &wirev1.Unfollow{Slot: uint32(id)}}})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		epoch := want[id]
		if asked[id] == epoch && !retry[id] {
			continue
		}
		asked[id] = epoch
		position := p.replicas.of(id).resume(epoch)
		if reload[id] {
			position = 0
		}
		out = append(out, &wirev1.ReplicateRequest{Follower: self, Ask: &wirev1.ReplicateRequest_Follow{Follow: &wirev1.Follow{
			Slot: uint32(id), LeaderEpoch: wire.EpochOut(epoch), Position: position,
		}}})
	}
	return out
}

// apply applies one message.
func (p *puller) apply(e *wirev1.ReplicateEvent) {
	now := time.Now()
	p.mu.Lock()
	p.lastReceived, p.received = now, true
	p.mu.Unlock()
	r := p.replicas.of(int(e.GetSlot()))
	if r == nil || e.GetAccess() == wirev1.Access_ACCESS_UNSPECIFIED {
		return // a beat of the whole stream
	}
	caughtUp, migrating, err := r.feed(p.leader, e, now)
	if e.GetSnapshotEnd() && err == nil {
		p.mu.Lock()
		delete(p.reload, r.id)
		p.mu.Unlock()
	}
	switch {
	case errors.Is(err, errDiffers):
		if p.noteDiffers(r.id, now) {
			p.notes.copyDiffers(r.id, wire.EpochIn(e.GetLeaderEpoch()), p.leader)
			p.wake.Set()
		}
	case err != nil:
		p.mu.Lock()
		p.retry[r.id] = true
		p.mu.Unlock()
		if errors.Is(err, errGap) {
			p.wake.Set() // at once; what was refused waits for the next tick
		}
	case migrating:
		p.migrating() // the source's last position may be reached
	case caughtUp:
		p.caughtUp()
	}
}

// noteDiffers makes the next request of a slot ask for the whole copy, and
// reports whether it did: once in a round of comparisons, so that a leader whose
// digest is wrong is not asked for its copy at each beat.
func (p *puller) noteDiffers(id int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, before := p.differed[id]; before && now.Sub(last) < compareBeats*p.config.Beat {
		return false
	}
	p.differed[id], p.reload[id], p.retry[id] = now, true, true
	return true
}

var (
	errGap     = errors.New("changes are missing in the feed")
	errRefused = errors.New("the leader does not lead at that epoch")
	errDiffers = errors.New("the copy is not the leader's")
)

// resume returns the copy's position in the feed of an epoch, or 0 if it has
// none.
func (r *replica) resume(epoch conclave.Epoch) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copyEpoch != epoch {
		return 0
	}
	return r.copyPosition
}

// feed applies one message of the leader that the copy follows; a late message
// of another leader is ignored. caughtUp reports that the copy has just become
// complete, migrating that a hand-over waits for it.
func (r *replica) feed(leader conclave.NodeID, e *wirev1.ReplicateEvent, now time.Time) (caughtUp, migrating bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch := wire.EpochIn(e.GetLeaderEpoch())
	if r.leader != leader || r.leaderEpoch != epoch {
		return false, false, nil
	}
	if e.GetAccess() != wirev1.Access_ACCESS_ACCEPT {
		r.detachAt(now)
		return false, false, errRefused
	}
	held := r.ensureStore()
	switch {
	case e.GetSnapshot():
		if e.GetSnapshotBegin() {
			r.loading = store.NewLoading(r.grace)
		}
		if r.loading == nil {
			// The end of a snapshot whose beginning was dropped: if it were
			// adopted, it would be taken for the whole. The snapshot is
			// requested again once, at its end.
			if !e.GetSnapshotEnd() {
				return false, false, nil
			}
			r.detachAt(now)
			return false, false, errGap
		}
		if !r.loading.Add(e, now) {
			return false, false, nil
		}
		r.store = held.Install(r.takeover, r.loading, now)
		r.loading = nil
	case r.copyEpoch != epoch || r.copyPosition != e.GetFrom():
		r.detachAt(now)
		return false, false, errGap
	case r.differs(e.GetDigest()):
		r.trace.Claim(trace.Claim{Kind: trace.Differed, Slot: r.id, Epoch: epoch, Peer: leader})
		return false, false, errDiffers // it is kept until the whole copy arrives
	default:
		held.Follow(r.takeover, e, now)
	}
	caughtUp = r.copyEpoch != epoch || !r.attached
	r.copyEpoch, r.copyPosition = epoch, e.GetPosition()
	r.attached, r.fresh = true, now
	return caughtUp, r.state == slot.Migrating, nil
}

// differs reports whether the copy of a follower is not the one that its leader
// has at the same position. A node that takes the slot over is written to by
// sessions already. mu is held.
func (r *replica) differs(leaders *wirev1.CopiesDigest) bool {
	if leaders == nil || r.state == slot.Migrating {
		return false
	}
	sum, count := r.store.Checksum()
	return sum != leaders.GetSum() || uint64(count) != leaders.GetCount()
}

// detachAt records that the feed is not being read any more.
func (r *replica) detachAt(now time.Time) {
	if r.attached {
		r.attached, r.fresh = false, now
	}
	r.loading = nil
}

// detach records that the stream of a leader broke.
func (rs *replicas) detach(leader conclave.NodeID) {
	now := time.Now()
	for _, r := range rs.all() {
		r.mu.Lock()
		if r.leader == leader {
			r.detachAt(now)
		}
		r.mu.Unlock()
	}
}
