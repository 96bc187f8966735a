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
	"conclave/internal/sleep"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// follows keeps this node's copies fed: one puller, and one stream, for each
// node that leads slots which this one follows.
type follows struct {
	server *Server
	bell   bell

	mu   sync.Mutex // guards the rest
	want map[conclave.NodeID]map[int]conclave.Epoch
	all  map[conclave.NodeID]*puller
}

// puller reads all feeds of one leader node.
type puller struct {
	*follows
	leader conclave.NodeID
	rand   *rand.Rand
	bell   bell
	stop   context.CancelFunc

	mu    sync.Mutex // guards the rest
	want  map[int]conclave.Epoch
	again map[int]bool // slots to ask for once more: refused, or with a gap
	heard time.Time    // when the leader last sent anything
}

// set says who follows what from now on: by leader, the slots and their epochs.
func (f *follows) set(want map[conclave.NodeID]map[int]conclave.Epoch) {
	f.mu.Lock()
	f.want = want
	f.mu.Unlock()
	f.bell.ring()
}

// lag is how long nothing was heard of a leader, beyond what its beats explain.
func (f *follows) lag(leader conclave.NodeID) time.Duration {
	f.mu.Lock()
	p := f.all[leader]
	f.mu.Unlock()
	if p == nil {
		return 0 // the replica itself knows since when it is not fed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if silent := time.Since(p.heard); silent > f.server.config.Beat*3/2 {
		return silent
	}
	return 0
}

// run starts and stops pullers as the table wants them, and joins them.
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
				p = &puller{follows: f, leader: leader, rand: f.server.stream(), bell: newBell(), stop: stop, again: map[int]bool{}, heard: time.Now()}
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
		case <-f.bell:
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
		p.bell.ring()
	}
}

// run holds a stream to the leader, as long as anything of it is wanted.
func (p *puller) run(ctx context.Context) {
	pause := 10 * time.Millisecond
	for {
		if m, ok := p.server.view.State().Members.Find(p.leader.Name); ok && m.Node == p.leader {
			spoke, err := p.pull(ctx, m.Address)
			if ctx.Err() != nil {
				return
			}
			p.server.log.Debug("feed broke", "leader", p.leader.Name, "error", err)
			if spoke {
				pause = 10 * time.Millisecond
			}
		}
		timer := time.NewTimer(pause/2 + time.Duration(p.rand.Int64N(int64(pause))))
		select {
		case <-timer.C:
		case <-p.bell:
			p.bell.ring() // for the stream that comes
			timer.Stop()
			if sleep.For(ctx, time.Millisecond) != nil {
				return
			}
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, 500*time.Millisecond)
	}
}

// pull reads one stream until it breaks: this goroutine asks, another reads.
func (p *puller) pull(ctx context.Context, address string) (spoke bool, err error) {
	var heard atomic.Bool
	defer func() { spoke = heard.Load() }()
	ctx, cancel := context.WithCancelCause(ctx)
	stream := p.server.peers.Data(address).Replicate(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			e, err := stream.Receive()
			if err != nil {
				cancel(wire.FromConnect(err))
				return
			}
			heard.Store(true)
			p.take(e)
		}
	})
	asked := map[int]conclave.Epoch{}
	defer func() {
		cancel(nil)
		_ = stream.CloseRequest() // it is broken, or given up
		reading.Wait()
		_ = stream.CloseResponse()
		p.server.detachCopies(p.leader)
	}()

	ticker := time.NewTicker(p.server.config.Beat)
	defer ticker.Stop()
	for {
		for _, ask := range p.changes(asked) {
			if err := stream.Send(ask); err != nil {
				return false, err
			}
		}
		select {
		case <-p.bell:
		case <-ticker.C: // look again at what was refused
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// changes is what must be asked so that asked becomes what is wanted.
func (p *puller) changes(asked map[int]conclave.Epoch) []*wirev1.ReplicateRequest {
	p.mu.Lock()
	want, again := p.want, p.again
	p.again = map[int]bool{}
	p.mu.Unlock()
	self := wire.NodeOut(p.server.config.Node)
	var out []*wirev1.ReplicateRequest
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		if _, ok := want[id]; !ok {
			delete(asked, id)
			out = append(out, &wirev1.ReplicateRequest{Follower: self, Ask: &wirev1.ReplicateRequest_Unfollow{Unfollow: &wirev1.Unfollow{Slot: uint32(id)}}})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		epoch := want[id]
		if asked[id] == epoch && !again[id] {
			continue
		}
		asked[id] = epoch
		out = append(out, &wirev1.ReplicateRequest{Follower: self, Ask: &wirev1.ReplicateRequest_Follow{Follow: &wirev1.Follow{
			Slot: uint32(id), LeaderEpoch: wire.EpochOut(epoch), Position: p.server.slots.of(id).resume(epoch),
		}}})
	}
	return out
}

// take applies one message.
func (p *puller) take(e *wirev1.ReplicateEvent) {
	now := time.Now()
	p.mu.Lock()
	p.heard = now
	p.mu.Unlock()
	r := p.server.slots.of(int(e.GetSlot()))
	if r == nil || e.GetAccess() == wirev1.Access_ACCESS_UNSPECIFIED {
		return // a beat of the whole stream
	}
	caughtUp, migrating, err := r.feed(p.leader, e, now)
	switch {
	case err != nil:
		p.mu.Lock()
		p.again[r.id] = true
		p.mu.Unlock()
		if errors.Is(err, errGap) {
			p.bell.ring() // what was refused is asked for again by the next tick
		}
	case migrating:
		p.server.slots.bell.ring() // the source's last position may be reached
	case caughtUp:
		p.server.poke()
	}
}

var (
	errGap     = errors.New("changes are missing in the feed")
	errRefused = errors.New("the leader does not lead at that epoch")
)

// resume is where the copy stands in the feed of an epoch; 0: nowhere.
func (r *replica) resume(epoch conclave.Epoch) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copyEpoch != epoch {
		return 0
	}
	return r.copyPosition
}

// feed applies one message of the leader that the copy follows; messages of
// others are late and nothing. caughtUp says that the copy has just become
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
	store := r.hold()
	switch {
	case e.GetSnapshot():
		if e.GetSnapshotBegin() {
			r.loading = NewStore(r.grace)
		}
		if r.loading == nil {
			// The tail of a snapshot whose beginning was given up: adopted, it
			// would pass for the whole. Asked for anew once, at its end.
			if !e.GetSnapshotEnd() {
				return false, false, nil
			}
			r.detachAt(now)
			return false, false, errGap
		}
		for _, c := range e.GetCopies() {
			r.loading.put(copyIn(c), now)
		}
		if !e.GetSnapshotEnd() {
			return false, false, nil
		}
		r.store = store.Adopt(r.takeover, r.loading, now)
		r.store.Mark(now.Add(wire.FromMs(e.GetUnconfirmedMs())))
		r.loading = nil
	case r.copyEpoch != epoch || r.copyPosition != e.GetFrom():
		r.detachAt(now)
		return false, false, errGap
	default:
		removals := make([]Removal, len(e.GetRemovals()))
		for i, x := range e.GetRemovals() {
			removals[i] = Removal{copyKey{wire.NodeIn(x.GetOwner()), x.GetDataInfoId(), x.GetId()}, x.GetCause()}
		}
		puts := make([]Copy, len(e.GetCopies()))
		for i, c := range e.GetCopies() {
			puts[i] = copyIn(c)
		}
		store.Follow(r.takeover, puts, removals, now)
	}
	r.store.TakeChanged() // a copy has no readers
	r.store.Raise(e.GetCounter())
	caughtUp = r.copyEpoch != epoch || !r.attached
	r.copyEpoch, r.copyPosition = epoch, e.GetPosition()
	r.attached, r.fresh = true, now
	return caughtUp, r.state == slot.Migrating, nil
}

// detachAt notes that the feed is not read any more.
func (r *replica) detachAt(now time.Time) {
	if r.attached {
		r.attached, r.fresh = false, now
	}
	r.loading = nil
}

// detachCopies notes that a leader's stream broke.
func (s *Server) detachCopies(leader conclave.NodeID) {
	now := time.Now()
	for _, r := range s.slots.all() {
		r.mu.Lock()
		if r.leader == leader {
			r.detachAt(now)
		}
		r.mu.Unlock()
	}
}
