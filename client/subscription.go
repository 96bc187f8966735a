package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// Subscription is a subscription to one dataId. It keeps the last list, even
// while no session can be reached, and takes only higher versions, whichever
// session they come from: what it shows never goes back.
type Subscription struct {
	client *Client
	id     string
	data   conclave.DataInfoID
	key    string
	seq    uint64
	opts   options
	pushes chan conclave.Datum // room for one, the newest; closed by Close

	// Guarded by client.mu.
	seen    conclave.Datum // an application is given copies of its values: the next push may change them
	list    *list.List     // of seen, with its publishers: a session that knows nothing yet must not push less; nil: nothing was pushed yet
	changed changed
	waiting bool // seen waits for the running callback
	calling bool
	closed  bool
	err     error
	over    bool // it was refused because of a limit since the last push
}

// changed is how a list differs from the one at the last call of OnChange: some values were
// added and some removed, and then, unless from is nil, *from became what the list has now.
type changed struct {
	added, removed []string
	from           *[]string
}

// Subscribe subscribes to a dataId. The first push comes as soon as the leader
// of its slot has answered, and is empty if there is no publication.
func (c *Client) Subscribe(dataID string, opts ...Option) (*Subscription, error) {
	data, o, err := name(dataID, opts)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("subscribe %s: %w", dataID, ErrClosed)
	}
	c.seq++
	s := &Subscription{client: c, id: c.newID(), data: data, key: data.String(), seq: c.seq, opts: o, pushes: make(chan conclave.Datum, 1)}
	c.subs[s.id] = s
	for _, l := range c.links {
		l.subscribes = append(l.subscribes, s)
	}
	c.mu.Unlock()
	c.wakeLinks()
	return s, nil
}

// C returns the channel of pushes, unless OnPush or OnChange takes them. It holds the
// newest only: a slow reader misses versions and never blocks the client. Close
// closes it.
func (s *Subscription) C() <-chan conclave.Datum { return s.pushes }

// Data returns the full name that is subscribed to.
func (s *Subscription) Data() conclave.DataInfoID { return s.data }

// Last returns a copy of the last list, and false before the first push.
func (s *Subscription) Last() (conclave.Datum, bool) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.datum(), s.list != nil
}

// datum returns the last list, with values that the application may change. The lock is held.
func (s *Subscription) datum() conclave.Datum {
	d := s.seen
	d.Values = slices.Clone(d.Values)
	return d
}

// Err returns why the subscription was refused, or nil. An error of the code
// wire.CodeTooLarge may also mean that the present list is larger than a session
// sends: then the last list stays, and the error ends with the next push. One of the
// code wire.CodeLimitReached ends when a session takes the subscription, which the
// client asks for again.
func (s *Subscription) Err() error {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.err
}

// Close ends the subscription. A callback that is running is not interrupted.
func (s *Subscription) Close() {
	c := s.client
	c.mu.Lock()
	if !s.closed {
		s.closed, s.waiting = true, false
		delete(c.subs, s.id)
		for _, l := range c.links {
			l.unsubscribes = append(l.unsubscribes, s.id)
			delete(l.unfit, s)
			delete(l.arriving, s)
		}
		close(s.pushes) // pushed sends under the same lock, after checking closed
	}
	c.mu.Unlock()
	c.wakeLinks()
}

// pushed gives a push to one subscription, which has the list once it is whole. One
// that does not fit what the subscription has, or the parts before it, is dropped, and
// the whole list is asked for: the session then knows again what the subscription has.
// The client's lock is held.
func (l *link) pushed(s *Subscription, p *wirev1.Push) {
	version := max(p.GetDelta().GetVersion(), p.GetDatum().GetVersion())
	if s.list != nil && version <= s.seen.Version {
		delete(l.arriving, s)
		return // the subscription has a later list, through another session
	}
	limit := l.client.config.MaxListBytes
	a := cmp.Or(l.arriving[s], &list.Assembly{Limit: limit, Replaced: s.replaced})
	whole, err := a.Add(p, s.list)
	if whole != nil {
		delete(l.arriving, s)
		if p.GetDelta() == nil {
			s.compareFrom(s.seen.Values)
		}
		s.pushed(version, whole, wire.FromMs(p.GetUnconfirmedMs()))
		return
	}
	l.arriving[s] = a
	switch large, isLarge := errors.AsType[*list.TooLarge](err); {
	case isLarge:
		l.withheld(s, wire.Errorf(wire.CodeTooLarge, "the list has %d bytes, at most %d are received", large.Bytes, limit))
	case err != nil && !l.unfit[s]:
		l.client.log.Info("a change does not fit: the whole list is read again", "dataId", s.data.DataID, "error", err)
		l.unfit[s] = true
		l.subscribes = append(l.subscribes, s)
		l.ready.Set()
	}
}

// withheld records that the present list of a subscription cannot be received. The
// client's lock is held.
func (l *link) withheld(s *Subscription, why error) {
	s.err = why
	l.client.log.Error("the list cannot be received, what was received before stays", "dataId", s.data.DataID, "id", s.id, "error", why)
}

// replaced notes for OnChange that some values take the place of others. The lock is held.
func (s *Subscription) replaced(removed, inserted []string) {
	if c := &s.changed; s.opts.onChange != nil && c.from == nil {
		c.removed, c.added = append(c.removed, removed...), append(c.added, inserted...)
	}
}

// compareFrom makes OnChange compare the list with these values, which are not changed any
// more. The lock is held.
func (s *Subscription) compareFrom(values []string) {
	if s.opts.onChange != nil && s.changed.from == nil {
		s.changed.from = &values
	}
}

// pushed takes a list that is newer than the last one. The lock is held; it never blocks.
func (s *Subscription) pushed(version int64, whole *list.List, unconfirmed time.Duration) {
	if s.closed {
		return
	}
	s.err, s.over, s.list = nil, false, whole
	s.seen = conclave.Datum{Data: s.data, Version: version, Values: whole.Values, Unconfirmed: unconfirmed}
	if s.opts.onPush == nil && s.opts.onChange == nil {
		putNewest(s.pushes, s.datum())
		return
	}
	if c := s.changed; c.from == nil && len(c.removed) > len(whole.Values) { // the callback is slow: the list itself is less
		s.compareFrom(slices.Clone(whole.Values))
	}
	s.waiting = true
	if !s.calling && !s.client.muted {
		s.calling = true
		s.client.callbacks.Go(s.runCallbacks) // joined at the end of Run
	}
}

// putNewest puts v into a channel with room for one, in the place of what was not
// read. It never blocks, because there is no other sender: the client's lock is
// held.
func putNewest[T any](ch chan T, v T) {
	select {
	case <-ch:
	default:
	}
	ch <- v
}

// runCallbacks calls the callback until no newer push waits: one goroutine per
// subscription at a time, and none while nothing changes.
func (s *Subscription) runCallbacks() {
	c := s.client
	c.mu.Lock()
	for s.waiting && !c.muted {
		s.waiting = false
		call := s.callback()
		c.mu.Unlock()
		call()
		c.mu.Lock()
	}
	s.calling = false
	c.mu.Unlock()
}

// callback returns the call of the application with what it has not had. The lock is held.
func (s *Subscription) callback() (call func()) {
	if s.opts.onChange == nil {
		d := s.datum()
		return func() { s.opts.onPush(d) }
	}
	change, c := Change{Data: s.data, Version: s.seen.Version, Unconfirmed: s.seen.Unconfirmed}, s.changed
	if s.changed = (changed{}); c.from != nil {
		c.removed, c.added = slices.Concat(*c.from, c.removed), slices.Concat(s.seen.Values, c.added)
	}
	return func() {
		change.Added, change.Removed = difference(c.removed, c.added)
		s.opts.onChange(change)
	}
}

// difference returns the values that next has more often than base, and those that base has
// more often, each as often as that. It sorts both.
func difference(base, next []string) (added, removed []string) {
	for len(base) > 0 && len(next) > 0 && base[0] == next[0] {
		base, next = base[1:], next[1:]
	}
	slices.Sort(base)
	slices.Sort(next)
	for len(base) > 0 || len(next) > 0 {
		switch {
		case len(base) == 0 || len(next) > 0 && next[0] < base[0]:
			added, next = append(added, next[0]), next[1:]
		case len(next) == 0 || base[0] < next[0]:
			removed, base = append(removed, base[0]), base[1:]
		default:
			base, next = base[1:], next[1:]
		}
	}
	return added, removed
}

// message returns the subscription as it is sent, with what it has.
func (s *Subscription) message() *wirev1.Subscription {
	m := &wirev1.Subscription{Id: s.id, DataInfoId: s.key, Count: uint32(len(s.seen.Values)), HoldMs: wire.Ms(s.opts.limit)}
	if s.list != nil {
		m.Version, m.Hash, m.Publishers = s.seen.Version, s.list.Hash(), s.list.Publishers
	}
	return m
}

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
