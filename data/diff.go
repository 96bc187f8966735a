package data

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// differ compares slots with sessions. A diff names one session incarnation and
// returns exactly that owner's set; its answer is a fence: the session has
// adopted this node's epoch before it computed it.
//
// Jobs wait in a queue for each session, so that a dead one holds up nobody
// else. Fences go before repairs, and are retried until the session answers or
// nobody waits for it any more, from the back of the line; a repair is tried once.
type differ struct {
	server *Server
	bell   bell

	mu     sync.Mutex // guards queues and their content
	queues map[conclave.NodeID]*diffQueue
}

type diffQueue struct {
	fences, repairs []diffJob
	workers         int
}

// diffWorkers is how many diffs are under way to one session.
const diffWorkers = 16

type diffJob struct {
	r       *replica
	epoch   conclave.Epoch
	session conclave.NodeID
	fence   bool
	done    func(highestPushed int64, err error) // nil: nobody wants to know
}

var (
	errNotThatOwner = errors.New("another incarnation answers there")
	errNobodyWaits  = errors.New("nobody waits for that session any more")
	errNoAddress    = errors.New("no address is known")
)

// ask queues a job; it never blocks.
func (d *differ) ask(j diffJob) {
	d.mu.Lock()
	q := d.queues[j.session]
	if q == nil {
		q = &diffQueue{}
		d.queues[j.session] = q
	}
	if j.fence {
		q.fences = append(q.fences, j)
	} else {
		q.repairs = append(q.repairs, j)
	}
	d.mu.Unlock()
	d.bell.ring()
}

// run starts workers as long as there are jobs, and joins them.
func (d *differ) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for {
		d.mu.Lock()
		for _, session := range sortedNodes(d.queues) {
			q := d.queues[session]
			for n := min(diffWorkers, len(q.fences)+len(q.repairs)); q.workers < n; q.workers++ {
				working.Go(func() { d.work(ctx, session) })
			}
		}
		d.mu.Unlock()
		select {
		case <-d.bell:
		case <-ctx.Done():
			return
		}
	}
}

// work does the jobs of one session until there is none.
func (d *differ) work(ctx context.Context, session conclave.NodeID) {
	rng := d.server.stream()
	for {
		j, ok := d.next(session)
		if !ok {
			return
		}
		var highest int64
		var err error
		for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
			highest, err = d.compare(ctx, j)
			if err == nil || ctx.Err() != nil || !j.fence {
				break
			}
			d.missed(ctx, j.session, err)
			if !d.waitedFor(j) {
				err = fmt.Errorf("%w: %w", errNobodyWaits, err)
				break
			}
			d.server.log.Debug("diff is tried again", "slot", j.r.id, "epoch", j.epoch, "session", session.Name, "error", err)
			if sleep.For(ctx, pause/2+time.Duration(rng.Int64N(int64(pause)))) != nil {
				break
			}
			j = d.toTheBack(j)
		}
		if j.done != nil {
			j.done(highest, err)
		}
	}
}

// toTheBack puts a fence that was refused behind those that wait, and takes the
// first of them: a session that holds something back of many slots, or has not
// seen their table yet, answers for the others meanwhile.
func (d *differ) toTheBack(j diffJob) diffJob {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[j.session] // it is there as long as a worker is
	if len(q.fences) == 0 {
		return j
	}
	q.fences = append(q.fences, j)
	j, q.fences = q.fences[0], q.fences[1:]
	return j
}

func (d *differ) next(session conclave.NodeID) (j diffJob, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[session]
	switch {
	case len(q.fences) > 0:
		j, q.fences = q.fences[0], q.fences[1:]
	case len(q.repairs) > 0:
		j, q.repairs = q.repairs[0], q.repairs[1:]
	default:
		if q.workers--; q.workers == 0 {
			delete(d.queues, session)
		}
		return diffJob{}, false
	}
	return j, true
}

// waitedFor says that a migration cannot go on without that session.
func (d *differ) waitedFor(j diffJob) bool {
	j.r.mu.Lock()
	migrating := j.r.state == slot.Migrating && j.r.epoch == j.epoch
	j.r.mu.Unlock()
	return migrating && containsNode(d.server.owners.living(), j.session)
}

// compare is one diff: digest first, then summary; again while the session's
// answer is cut.
//
//  1. Send count and digest of what is held of that owner. Equal: done.
//  2. Send every entry. The answer is what is missing here, and what is not
//     known there.
//  3. Additions are applied at once, removals only with the last part, so
//     nothing vanishes on the way.
func (d *differ) compare(ctx context.Context, j diffJob) (highest int64, err error) {
	address := d.server.owners.address(j.session)
	if address == "" {
		return 0, errNoAddress
	}
	client := d.server.peers.Session(address)
	added, removed := 0, 0
	defer func() {
		if added+removed > 0 && !j.fence {
			d.server.log.Info("slot repaired from a session", "slot", j.r.id, "session", j.session.Name, "added", added, "removed", removed)
		}
	}()
	for summarize := false; ; {
		req, held, flight, ok := d.request(j, summarize)
		if !ok {
			return highest, errNobodyWaits
		}
		cctx, cancel := context.WithTimeout(ctx, d.server.config.DiffTimeout)
		res, err := client.Diff(cctx, connect.NewRequest(req))
		cancel()
		if err == nil && wire.NodeIn(res.Msg.GetSession()) != j.session {
			err = fmt.Errorf("%w: %s", errNotThatOwner, wire.NodeIn(res.Msg.GetSession()))
		}
		if err != nil {
			j.r.land(flight)
			return highest, wire.FromConnect(err)
		}
		d.server.config.Trace.Claim(trace.Claim{Kind: trace.Merging, Slot: j.r.id, Epoch: j.epoch, Peer: j.session})
		d.server.owners.heard(j.session, address)
		d.server.owners.attempt(j.session, true, true, time.Now())
		d.server.metrics.diffs.Inc()
		highest = max(highest, res.Msg.GetHighestPushed())
		again, a, r, err := d.apply(j, flight, held, res.Msg)
		added, removed = added+a, removed+r
		if err != nil || !again {
			return highest, err
		}
		summarize = true
	}
}

// request builds the question, and begins a flight that apply or land ends.
func (d *differ) request(j diffJob, summarize bool) (*wirev1.DiffRequest, []Copy, *flight, bool) {
	r := j.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leads() || r.epoch != j.epoch {
		return nil, nil, nil, false
	}
	count, sum := r.store.Digest(j.session)
	req := &wirev1.DiffRequest{
		Asker: wire.NodeOut(d.server.config.Node), AskerAddress: d.server.address,
		Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(j.epoch), Session: wire.NodeOut(j.session),
		Count: count, Digest: sum, Summarized: summarize,
	}
	var held []Copy
	if summarize {
		held = r.store.Of(j.session)
		req.Entries = make([]*wirev1.DiffEntry, len(held))
		for i, c := range held {
			req.Entries[i] = &wirev1.DiffEntry{Id: c.id, Version: c.version}
		}
	}
	return req, held, r.store.Begin(), true
}

// land ends a flight that brought nothing.
func (r *replica) land(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		r.store.End(f)
	}
}

// apply takes one answer, counts what changed, and says whether to ask again.
func (d *differ) apply(j diffJob, f *flight, held []Copy, m *wirev1.DiffResponse) (again bool, added, taken int, err error) {
	puts := make([]conclave.Publisher, len(m.GetPuts()))
	for i, p := range m.GetPuts() {
		if puts[i], err = wire.PublisherIn(p); err != nil {
			j.r.land(f)
			return false, 0, 0, fmt.Errorf("diff of slot %d with %s: %w", j.r.id, j.session, err)
		}
	}
	again = m.GetSummarize() || m.GetMore() && len(puts) > 0
	var removed []Copy
	if !again {
		removed = match(held, m.GetRemoved())
	}
	r := j.r
	r.mu.Lock()
	if r.store == nil || !r.store.open(f) { // the leadership that asked has ended
		r.mu.Unlock()
		return false, 0, 0, errNobodyWaits
	}
	if !j.fence && !again {
		removed = r.doubt(j.session, removed)
	}
	added, taken = r.store.Merge(f, j.session, puts, removed, time.Now())
	if !again {
		delete(r.partial, j.session) // all that it has is here
	}
	r.trace.Claim(trace.Claim{Kind: trace.Merged, Slot: r.id, Epoch: r.epoch, Peer: j.session, Key: m.GetSession().GetIncarnation(), Count: added + taken})
	r.store.End(f)
	r.publish(&d.server.watchers)
	r.mu.Unlock()
	d.server.ring()
	return again, added, taken, nil
}

// match finds the copies that a session says it does not know: its entries name
// the id and the version that it was told.
func match(held []Copy, removed []*wirev1.DiffEntry) []Copy {
	if len(removed) == 0 {
		return nil
	}
	unknown := make(map[string]int64, len(removed))
	for _, e := range removed {
		unknown[e.GetId()] = e.GetVersion()
	}
	var out []Copy
	for _, c := range held {
		if v, ok := unknown[c.id]; ok && c.version <= v {
			out = append(out, c)
		}
	}
	return out
}
