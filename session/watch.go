package session

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// watches are the configuration values that clients watch. A session passes
// them on from the cluster's state, and knows nothing of their meaning.
// (Article 002: provide data, which a session fetches from the meta leader when
// it starts.)
type watches struct {
	mu   sync.Mutex // guards the rest; taken before an outbox's
	now  wire.ConfigValues
	sent map[*connection]map[string]conclave.Epoch // by id: the epoch of the value that was sent; zero: that there is none
}

// watch adds ids that a client watches, and sends it their values, also to say
// that there is none. Ids that are invalid, or above the limit, are ignored: the
// client refuses them itself.
func (w *watches) watch(conn *connection, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent[conn]
	if sent == nil {
		sent = map[string]conclave.Epoch{}
		w.sent[conn] = sent
	}
	for _, id := range ids {
		if _, known := sent[id]; wire.ValidConfigID(id) && (known || len(sent) < wire.MaxWatches) {
			w.send(conn, id)
		}
	}
}

// unwatch removes ids.
func (w *watches) unwatch(conn *connection, ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.sent[conn], id)
		conn.out.add(func(o *registry.Outbox) { o.Unconfigure(id) })
	}
}

// leave removes a connection that has ended.
func (w *watches) leave(conn *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, conn)
}

// update sends each client the watched values that have changed.
func (w *watches) update(now wire.ConfigValues) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.now.Epoch.Less(now.Epoch) {
		return
	}
	w.now = now
	for _, conn := range slices.SortedFunc(maps.Keys(w.sent), func(a, b *connection) int { return cmp.Compare(a.Number, b.Number) }) {
		for _, id := range slices.Sorted(maps.Keys(w.sent[conn])) {
			if v, _ := now.Find(id); v.Epoch != w.sent[conn][id] {
				w.send(conn, id)
			}
		}
	}
}

// send gives a value to the outbox of a connection. mu is held.
func (w *watches) send(conn *connection, id string) {
	v, set := w.now.Find(id)
	w.sent[conn][id] = v.Epoch
	conn.out.add(func(o *registry.Outbox) {
		o.Configure(wire.EpochOut(w.now.Epoch), &wirev1.WatchedValue{Id: id, Set: set, Value: v.Value})
	})
}
