package data

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

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

// differ compares slots with sessions. A diff names one session incarnation and
// returns exactly that owner's set of registrations. The session has adopted this
// node's epoch before it computes the answer, so its fence refuses older leaders.
//
// Each session has its own queue, so that a dead session delays no other one.
// What a migration waits for goes before repairs. If it fails, it goes to the end of
// the queue and is tried again until the session answers or no migration waits for it any
// more (a failed MigratingTask in article 002 is retried, too); a repair is
// tried once.
type differ struct {
	config  Config
	owners  *owners
	feeds   *feeds
	metrics *metrics
	rand    func() *rand.Rand // a random source for one worker
	address func() string     // of this node
	session func(address string) wirev1connect.SessionServiceClient
	dial    func(ctx context.Context, address string) error
	wake    signal.Signal

	mu     sync.Mutex // guards queues and their content
	queues map[conclave.NodeID]*diffQueue
}

type diffQueue struct {
	awaited, repairs []diffJob
	workers          int
}

// diffWorkers is the largest number of requests in progress with one session, and
// diffTogether that of slots in one of them.
const (
	diffWorkers  = 16
	diffTogether = 64
)

// diffJob is a request to compare a slot with a session at a leader epoch.
// awaited reports whether a migration waits for it; otherwise it is a repair.
type diffJob struct {
	r       *replica
	epoch   conclave.Epoch
	session conclave.NodeID
	awaited bool
	alone   bool                                 // a request with others has failed, or has not settled it
	until   time.Time                            // (awaited) until when a session that is not living is asked again; zero: it is asked once
	failed  func()                               // (awaited) called after each failed attempt, which may end the wait
	done    func(highestPushed int64, err error) // nil if no caller needs the result
}

// otherDiff is a diff whose digest is in the request of another one.
type otherDiff struct {
	diffJob
	merge *store.PendingMerge
}

var (
	errNotThatOwner = errors.New("another incarnation answers at the session's address")
	errNotAwaited   = errors.New("this diff is not waited for any more")
	errNoAddress    = errors.New("the session's address is not known")
)

// enqueue queues a job; it never blocks (commitSyncSessionTask in article 002).
func (d *differ) enqueue(j diffJob) {
	d.mu.Lock()
	q := d.queues[j.session]
	if q == nil {
		q = &diffQueue{}
		d.queues[j.session] = q
	}
	if j.awaited {
		q.awaited = append(q.awaited, j)
	} else {
		q.repairs = append(q.repairs, j)
	}
	d.mu.Unlock()
	d.wake.Set()
}

// hasRepairs reports whether repairs with a session wait for a worker.
func (d *differ) hasRepairs(session conclave.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[session]
	return q != nil && len(q.repairs) > 0
}

// run starts workers while there are jobs, and waits for them at the end.
func (d *differ) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for {
		d.mu.Lock()
		for _, session := range sortedNodes(d.queues) {
			q := d.queues[session]
			for n := min(diffWorkers, len(q.awaited)+len(q.repairs)); q.workers < n; q.workers++ {
				working.Go(func() { d.work(ctx, session) })
			}
		}
		d.mu.Unlock()
		select {
		case <-d.wake.C():
		case <-ctx.Done():
			return
		}
	}
}

// work does the jobs of one session until there is none left.
func (d *differ) work(ctx context.Context, session conclave.NodeID) {
	rng := d.rand()
	for {
		j, ok := d.next(session)
		if !ok {
			return
		}
		var highest int64
		var err error
		for pause := 5 * time.Millisecond; ; pause = sleep.Longer(pause, 5*time.Millisecond, 200*time.Millisecond) {
			highest, err = d.compare(ctx, j)
			if err == nil || ctx.Err() != nil || !j.awaited {
				break
			}
			if gone := d.noteFailure(ctx, j.session, err); !d.isAwaited(j, gone) {
				err = fmt.Errorf("%w: %w", errNotAwaited, err)
				break
			}
			j.failed()
			d.config.Logger.Debug("diff is tried again", "slot", j.r.id, "epoch", j.epoch, "session", session.Name, "error", err)
			if sleep.For(ctx, pause/2+time.Duration(rng.Int64N(int64(pause)))) != nil {
				break
			}
			j = d.requeue(j)
		}
		if j.done != nil {
			j.done(highest, err)
		}
	}
}

// noteFailure records why a session did not answer. To distinguish a failed
// dial from silence it dials once more, because a call may end before its dial
// does. gone reports whether the session has shown that it cannot answer: its address
// refused the dial or could not be dialled at all, or another incarnation has taken its
// place. A dial that nothing answered in time shows nothing.
func (d *differ) noteFailure(ctx context.Context, session conclave.NodeID, err error) (gone bool) {
	gone = errors.Is(err, errNotThatOwner)
	dialled := !wire.DialFailed(err)
	if address := d.owners.address(session); dialled && address != "" {
		err = d.dial(ctx, address)
		dialled = !wire.DialFailed(err)
	} else if address == "" {
		dialled = false // it never said at which address it can be asked
	}
	if ctx.Err() == nil {
		d.owners.attempt(session, dialled, false, time.Now())
	}
	return gone || !dialled && !wire.DialTimedOut(err)
}

// requeue puts an awaited diff that failed at the end of the queue and returns the
// first one in it. A session that holds something back of many slots, or has
// not received their table yet, can answer for the others meanwhile.
func (d *differ) requeue(j diffJob) diffJob {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[j.session] // it is there as long as a worker is
	if len(q.awaited) == 0 {
		return j
	}
	q.awaited = append(q.awaited, j)
	j, q.awaited = q.awaited[0], q.awaited[1:]
	return j
}

// next returns the next job of a session. If there is none, the worker is
// counted out and must end.
func (d *differ) next(session conclave.NodeID) (j diffJob, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[session]
	switch {
	case len(q.awaited) > 0:
		j, q.awaited = q.awaited[0], q.awaited[1:]
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

// together adds to the request of an awaited diff what else is awaited of its session: a
// node that is granted the slots of a dead one compares all of them with each session.
func (d *differ) together(req *wirev1.DiffRequest, j diffJob) (others []otherDiff) {
	if !j.awaited || j.alone {
		return nil
	}
	d.mu.Lock()
	var taken []diffJob
	q := d.queues[j.session]
	for len(q.awaited) > 0 && !q.awaited[0].alone && len(taken) < diffTogether-1 {
		taken, q.awaited = append(taken, q.awaited[0]), q.awaited[1:]
	}
	d.mu.Unlock()
	for _, o := range taken {
		one, _, merge, ok := d.request(o, false)
		if !ok {
			o.done(0, errNotAwaited)
			continue
		}
		req.Also = append(req.Also, &wirev1.DiffSlot{Slot: one.Slot, LeaderEpoch: one.LeaderEpoch, Count: one.Count, Digest: one.Digest})
		others = append(others, otherDiff{o, merge})
	}
	return others
}

// settle ends the diffs of slots that are the same at the session. The others are asked
// for again, alone.
func (d *differ) settle(others []otherDiff, answers []*wirev1.DiffedSlot) {
	for i, o := range others {
		if i >= len(answers) || !answers[i].GetSame() {
			o.r.abandon(o.merge)
			o.alone = true
			d.enqueue(o.diffJob)
			continue
		}
		d.config.Trace.Claim(trace.Claim{Kind: trace.Merging, Slot: o.r.id, Epoch: o.epoch, Peer: o.session})
		d.metrics.diffs.Inc()
		_, _, _, err := d.apply(o.diffJob, o.merge, nil, &wirev1.DiffResponse{Session: wire.NodeOut(o.session), Same: true})
		o.done(answers[i].GetHighestPushed(), err)
	}
}

// isAwaited reports whether a migration still waits for that session, whose last
// attempt failed. A session that need not answer is not asked again once it is gone
// (noteFailure).
func (d *differ) isAwaited(j diffJob, gone bool) bool {
	j.r.mu.Lock()
	migrating := j.r.state == slot.Migrating && j.r.epoch == j.epoch
	j.r.mu.Unlock()
	return migrating && (d.owners.alive(j.session) || time.Now().Before(j.until) && !gone)
}

// compare is one diff: first the digest, then the summary, and again while the
// session's answer is cut.
//
//  1. Send the count and digest of the owner's copies, and those of other slots that are
//     awaited of the session. If they are equal, that is all.
//  2. Send every entry. The answer is what is missing here, and what the session
//     does not know.
//  3. Additions are applied at once, removals only with the last part, so that
//     nothing disappears in between.
//
// It returns the highest version that the session has pushed.
func (d *differ) compare(ctx context.Context, j diffJob) (highest int64, err error) {
	address := d.owners.address(j.session)
	if address == "" {
		return 0, errNoAddress
	}
	client := d.session(address)
	added, removed := 0, 0
	defer func() {
		if added+removed > 0 && !j.awaited {
			d.config.Logger.Info("slot repaired from a session", "slot", j.r.id, "session", j.session.Name, "added", added, "removed", removed)
		}
	}()
	for summarize := false; ; {
		req, held, merge, ok := d.request(j, summarize)
		if !ok {
			return highest, errNotAwaited
		}
		var others []otherDiff
		if !summarize {
			others = d.together(req, j)
		}
		cctx, cancel := context.WithTimeout(ctx, d.config.DiffTimeout)
		res, err := client.Diff(cctx, connect.NewRequest(req))
		cancel()
		if err == nil && wire.NodeIn(res.Msg.GetSession()) != j.session {
			err = fmt.Errorf("%w: %s", errNotThatOwner, wire.NodeIn(res.Msg.GetSession()))
		}
		if err != nil {
			d.settle(others, nil)
			j.r.abandon(merge)
			return highest, wire.FromConnect(err)
		}
		d.settle(others, res.Msg.GetAlso())
		d.config.Trace.Claim(trace.Claim{Kind: trace.Merging, Slot: j.r.id, Epoch: j.epoch, Peer: j.session})
		d.owners.noteContact(j.session, address)
		d.owners.attempt(j.session, true, true, time.Now())
		d.metrics.diffs.Inc()
		highest = max(highest, res.Msg.GetHighestPushed())
		again, a, r, err := d.apply(j, merge, held, res.Msg)
		added, removed = added+a, removed+r
		if err != nil || !again {
			return highest, err
		}
		summarize = true
	}
}

// request builds the question, and begins a merge that apply or abandon ends.
func (d *differ) request(j diffJob, summarize bool) (*wirev1.DiffRequest, []store.Copy, *store.PendingMerge, bool) {
	r := j.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leads() || r.epoch != j.epoch {
		return nil, nil, nil, false
	}
	count, sum := r.store.Digest(j.session)
	req := &wirev1.DiffRequest{
		Asker: wire.NodeOut(d.config.Node), AskerAddress: d.address(),
		Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(j.epoch), Session: wire.NodeOut(j.session),
		Count: count, Digest: sum, Summarized: summarize,
	}
	var held []store.Copy
	if summarize {
		held = r.store.Of(j.session)
		req.Entries = make([]*wirev1.DiffEntry, len(held))
		for i, c := range held {
			req.Entries[i] = &wirev1.DiffEntry{Id: c.ID, Version: c.Version}
		}
	}
	return req, held, r.store.Begin(), true
}

// abandon ends a merge without an answer.
func (r *replica) abandon(merge *store.PendingMerge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store != nil {
		r.store.End(merge)
	}
}

// apply merges one answer. It returns whether to ask again, and how many copies
// it added and removed.
func (d *differ) apply(j diffJob, merge *store.PendingMerge, held []store.Copy, m *wirev1.DiffResponse) (again bool, added, taken int, err error) {
	for _, p := range m.GetPuts() {
		if err = wire.CheckPublisher(p); err != nil {
			j.r.abandon(merge)
			return false, 0, 0, fmt.Errorf("diff of slot %d with %s: %w", j.r.id, j.session, err)
		}
	}
	again = m.GetSummarize() || m.GetMore() && len(m.GetPuts()) > 0
	var removed []store.Copy
	if !again {
		removed = match(held, m.GetRemoved())
	}
	r := j.r
	r.mu.Lock()
	if r.store == nil || !r.store.IsOpen(merge) { // the leadership that asked has ended
		r.mu.Unlock()
		return false, 0, 0, errNotAwaited
	}
	if !j.awaited && !again {
		removed = r.confirmRemovals(j.session, removed)
	}
	added, taken = r.store.Merge(merge, j.session, m.GetPuts(), removed, time.Now())
	if !again {
		delete(r.partial, j.session) // everything that the session has is here
	}
	r.trace.Claim(trace.Claim{Kind: trace.Merged, Slot: r.id, Epoch: r.epoch, Peer: j.session, Key: m.GetSession().GetIncarnation(), Count: added + taken})
	r.store.End(merge)
	r.publish()
	r.mu.Unlock()
	d.feeds.wake()
	return again, added, taken, nil
}

// match returns the copies that a session reports as unknown: its entries name
// the id and the version that they were sent with.
func match(held []store.Copy, removed []*wirev1.DiffEntry) []store.Copy {
	if len(removed) == 0 {
		return nil
	}
	unknown := make(map[string]int64, len(removed))
	for _, e := range removed {
		unknown[e.GetId()] = e.GetVersion()
	}
	var out []store.Copy
	for _, c := range held {
		if v, ok := unknown[c.ID]; ok && c.Version <= v {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b store.Copy) int { return a.Key.Compare(b.Key) }) // each removal takes the next version
	return out
}
