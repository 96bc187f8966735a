package data

import (
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// feeds are the open feeds of this node: those of the nodes that follow its
// slots, and those of the sessions.
type feeds struct {
	streams  feedStreams
	watchers watchers
}

// wake wakes every feed that has something to send. No replica's lock is held.
func (f *feeds) wake() {
	f.watchers.wake()
	f.streams.wake()
}

// feedStream is the stream of one follower node.
type feedStream struct {
	wake signal.Signal

	mu       sync.Mutex // guards the fields below; taken inside a replica's lock
	requests []*wirev1.ReplicateRequest
	dirty    map[int]bool // slots that may have something to send
}

// takePending returns what is queued, and empties the queue.
func (f *feedStream) takePending() (requests []*wirev1.ReplicateRequest, dirty map[int]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests, dirty = f.requests, f.dirty
	f.requests, f.dirty = nil, map[int]bool{}
	return requests, dirty
}

// mark records that a slot may have something to send. A replica's lock is
// held; call feeds.wake after it has been released.
func (f *feedStream) mark(slot int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[slot] = true
}

// feedStreams are all open streams.
type feedStreams struct {
	mu  sync.Mutex    // guards all
	all []*feedStream // in the order in which they were opened
}

// wake wakes every stream that has something to send. No replica's lock is
// held.
func (fs *feedStreams) wake() {
	fs.mu.Lock()
	due := slices.Clone(fs.all)
	fs.mu.Unlock()
	for _, f := range due {
		f.mu.Lock()
		waits := len(f.dirty)+len(f.requests) > 0
		f.mu.Unlock()
		if waits {
			f.wake.Set()
		}
	}
}

// set adds a stream, or removes it.
func (fs *feedStreams) set(f *feedStream, open bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if open {
		fs.all = append(fs.all, f)
		return
	}
	fs.all = slices.DeleteFunc(fs.all, func(x *feedStream) bool { return x == f })
}

// watchers are the sessions' open change feeds.
//
// A feed names which data of which slot have changed, up to which position.
// Changes that have not been sent to a session yet are merged, so a slow session
// costs a set of names and not a queue. The first change is sent at once. When a
// message is made, replica.carry replaces names by content where that saves the
// session a Fetch.
type watchers struct {
	mu  sync.Mutex // guards all, and pending and given of each; taken inside a replica's lock
	all []*watcher
}

// watcher is one session's change feed.
type watcher struct {
	session conclave.NodeID
	wake    signal.Signal
	pending map[int]*pendingChange // by slot
	sent    map[int]uint64         // the position last sent; used by the stream's handler only
	given   map[string]given       // by DataInfoID: what the session was sent last; nil if the feed carries only names
}

// given is what a session was sent of a datum that it reads.
type given struct {
	hash    uint64 // of the content
	at      time.Time
	carried int // how many changes the feed has carried since the session asked
}

// Limits of what a feed carries. Everything else is named, and fetched by the
// sessions that want it.
const (
	givenMost    = 8192                  // data of which a feed remembers what its session has
	carryAtOnce  = 16                    // changes in a message: more are a burst, which Fetches merge
	carryPause   = 12 * time.Millisecond // between two contents of a datum: more than the push window, since the second may travel faster
	carryAgain   = 10 * time.Second      // after a session has fetched what it was sent: its window or pace is longer
	carryUnasked = 256                   // changes of a datum without a Fetch: the session may not read it any more
)

// noteGiven records that a session was sent answers, to what it has asked for or, if that
// is nil, by its feed. A session that asks with another content than it was carried has not
// counted that; more of it would only replace the contents from which a delta can be made.
// A replica's lock is held.
func (ws *watchers) noteGiven(session conclave.NodeID, wants []*wirev1.Want, answers []*wirev1.Fetched, now time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		if w.session != session || w.given == nil {
			continue
		}
		for i, f := range answers {
			id, g := f.GetDatum().GetDataInfoId(), given{hash: f.GetHash(), at: now}
			before, known := w.given[id]
			switch {
			case wants == nil:
				g.carried = before.carried + 1
			case before.carried > 0 && wants[i].GetHash() != before.hash && wants[i].GetHash() != 0:
				g.at = now.Add(carryAgain)
			}
			if !known && len(w.given) >= givenMost {
				clear(w.given)
			}
			if g.carried >= carryUnasked || f.GetPart() != nil || f.GetTooLarge() > 0 {
				delete(w.given, id)
			} else {
				w.given[id] = g
			}
		}
	}
}

// mayCarry returns the hash of what a session has of a datum, and whether its feed may
// carry the next change.
func (ws *watchers) mayCarry(w *watcher, id string, now time.Time) (hash uint64, ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	g, known := w.given[id]
	return g.hash, known && now.Sub(g.at) >= carryPause
}

// forget ends what the feed carries of a datum until the session asks for it again.
func (ws *watchers) forget(w *watcher, id string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(w.given, id)
}

// pendingChange is what a feed will send of one slot: the slot begins to be
// served (reset), it is not served any more (ended), or data have changed.
type pendingChange struct {
	epoch        conclave.Epoch
	position     uint64
	reset, ended bool
	ids          map[string]struct{}
}

// change records that data of a slot have changed. A replica's lock is held, so
// changes come in the order of their positions.
func (ws *watchers) change(slot int, epoch conclave.Epoch, position uint64, ids []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		p := w.pending[slot]
		if p == nil {
			p = &pendingChange{ids: make(map[string]struct{}, len(ids))}
			w.pending[slot] = p
		}
		p.epoch, p.position = epoch, position
		if p.reset {
			continue // the session will fetch everything anyway
		}
		for _, id := range ids {
			p.ids[id] = struct{}{}
		}
	}
}

// reset records that a slot begins to be served. Changes of the slot that are
// pending are dropped.
func (ws *watchers) reset(slot int, epoch conclave.Epoch, position uint64) {
	ws.put(slot, pendingChange{epoch: epoch, position: position, reset: true})
}

// ended records that a slot is not served any more. Changes of the slot that
// are pending are dropped.
func (ws *watchers) ended(slot int, epoch conclave.Epoch) {
	ws.put(slot, pendingChange{epoch: epoch, ended: true})
}

// put replaces what is pending of a slot in every feed.
func (ws *watchers) put(slot int, p pendingChange) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		q := p
		w.pending[slot] = &q
	}
}

// wake wakes every feed that has something to send. No lock is held.
func (ws *watchers) wake() {
	ws.mu.Lock()
	var due []signal.Signal
	for _, w := range ws.all {
		if len(w.pending) > 0 {
			due = append(due, w.wake)
		}
	}
	ws.mu.Unlock()
	for _, b := range due {
		b.Set()
	}
}

// open adds a session's feed, without any slot.
func (ws *watchers) open(session conclave.NodeID, answers bool) *watcher {
	w := &watcher{session: session, wake: signal.New(), pending: map[int]*pendingChange{}, sent: map[int]uint64{}}
	if answers {
		w.given = map[string]given{}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = append(ws.all, w)
	return w
}

func (ws *watchers) close(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = slices.DeleteFunc(ws.all, func(o *watcher) bool { return o == w })
}

// next returns the next message: everything pending, in the order of the slots.
func (ws *watchers) next(w *watcher) *wirev1.WatchEvent {
	ws.mu.Lock()
	pending := w.pending
	w.pending = make(map[int]*pendingChange)
	ws.mu.Unlock()
	out := &wirev1.WatchEvent{}
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		p := pending[id]
		c := &wirev1.SlotChange{
			Slot: uint32(id), LeaderEpoch: wire.EpochOut(p.epoch), From: w.sent[id], Position: p.position, Reset_: p.reset, Ended: p.ended,
			DataInfoIds: slices.Sorted(maps.Keys(p.ids)),
		}
		w.sent[id] = p.position
		out.Changes = append(out.Changes, c)
	}
	return out
}

// show makes a slot pending for one feed. A replica's lock is held.
func (ws *watchers) show(w *watcher, slot int, epoch conclave.Epoch, position uint64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.pending[slot] = &pendingChange{epoch: epoch, position: position, reset: true}
}
