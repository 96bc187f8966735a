package client

import (
	"errors"
	"fmt"
	"slices"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// ConfigValue is a value of the configuration that operators publish to the
// clients of the cluster.
type ConfigValue struct {
	ID    string
	Value string
	Set   bool // false: there is no such value, or it was removed
}

// Watch is a subscription to one configuration value. Like the list of a
// Subscription, the value stays while no session can be reached, and does not go
// back to an older one when the client moves to a session that is behind. What
// the database has decides: where an older backup of it is restored, the older
// value is the newest one. (Article 002: provide data.)
type Watch struct {
	client *Client
	id     string
	values chan ConfigValue // room for one, the newest; closed by Close

	// Guarded by client.mu.
	seen   ConfigValue
	epoch  conclave.Epoch // of the configuration that the session had
	known  bool
	closed bool
}

// Watch watches the configuration value of an id, as `conclave config set` sets
// it. The first value arrives when a session has answered, also if there is
// none. Every call is a Watch of its own. It needs no token.
func (c *Client) Watch(id string) (*Watch, error) {
	c.mu.Lock()
	w := &Watch{client: c, id: id, values: make(chan ConfigValue, 1)}
	same := slices.IndexFunc(c.watches, func(x *Watch) bool { return x.id == id })
	err := error(nil)
	switch {
	case !wire.ValidConfigID(id):
		err = errors.New("want an id of 1 to 128 letters, digits, dots, hyphens or underscores")
	case c.closed:
		err = ErrClosed
	case same < 0 && len(c.watchedIDs()) >= wire.MaxWatches:
		err = fmt.Errorf("a client can watch %d values", wire.MaxWatches)
	}
	if err != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("watch %.150q: %w", id, err)
	}
	if same >= 0 && c.watches[same].known { // it must not go back behind what that one has seen
		w.took(c.watches[same].seen, c.watches[same].epoch)
	}
	c.watches = append(c.watches, w)
	for _, l := range c.links {
		l.watches = append(l.watches, id)
	}
	c.mu.Unlock()
	c.wakeLinks()
	return w, nil
}

// watchedIDs returns the ids of all watches, sorted, each once. The lock is held.
func (c *Client) watchedIDs() []string {
	var ids []string
	for _, w := range c.watches {
		ids = append(ids, w.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// C returns the channel of values. It holds the newest only. Close closes it;
// Client.Close does not.
func (w *Watch) C() <-chan ConfigValue { return w.values }

// Last returns the last value, and false before the first answer.
func (w *Watch) Last() (ConfigValue, bool) {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	return w.seen, w.known
}

// Close ends the watch.
func (w *Watch) Close() {
	c := w.client
	c.mu.Lock()
	if !w.closed {
		w.closed = true
		c.watches = slices.DeleteFunc(c.watches, func(x *Watch) bool { return x == w })
		if !slices.Contains(c.watchedIDs(), w.id) {
			for _, l := range c.links {
				l.watches = slices.DeleteFunc(l.watches, func(id string) bool { return id == w.id })
				l.unwatches = append(l.unwatches, w.id)
			}
		}
		close(w.values) // took sends under the same lock, after checking closed
	}
	c.mu.Unlock()
	c.wakeLinks()
}

// configured takes the values that a session has sent. The lock is held.
func (c *Client) configured(m *wirev1.WatchedValues) {
	epoch := wire.EpochIn(m.GetEpoch())
	for _, v := range m.GetValues() {
		for _, w := range c.watches {
			if w.id == v.GetId() {
				w.took(ConfigValue{ID: w.id, Value: v.GetValue(), Set: v.GetSet()}, epoch)
			}
		}
	}
}

// took takes a value, unless its session is behind an earlier one or it is the
// one that was seen last. The lock is held; it never blocks.
func (w *Watch) took(v ConfigValue, epoch conclave.Epoch) {
	if w.closed || epoch.Less(w.epoch) {
		return
	}
	if !w.known || w.seen != v {
		putNewest(w.values, v)
	}
	w.seen, w.epoch, w.known = v, epoch, true
}
