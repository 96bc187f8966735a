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
	limit  time.Duration       // see HoldAtMost
	onPush func(push)          // it must not change the values
	pushes chan conclave.Datum // room for one, the newest; closed by Close

	// Guarded by client.mu.
	seen    conclave.Datum
	list    *list.List // of seen, with its publishers: a session that knows nothing yet must not push less; nil: nothing was pushed yet
	next    *push      // the one that waits for the running callback
	calling bool
	closed  bool
	err     error
	over    bool // it was refused because of a limit since the last push
}

// push is a list for a callback.
type push struct {
	conclave.Datum
	edits []*wirev1.ValueEdit // by which it differs from the one before; nil: not known
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
	s := &Subscription{client: c, id: c.newID(), data: data, key: data.String(), seq: c.seq, limit: o.limit, onPush: o.callback(), pushes: make(chan conclave.Datum, 1)}
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

// Last returns the last list, and false before the first push.
func (s *Subscription) Last() (conclave.Datum, bool) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.seen, s.list != nil
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
		s.closed, s.next = true, nil
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
	a := cmp.Or(l.arriving[s], &list.Assembly{Limit: limit})
	whole, err := a.Add(p, s.list)
	if whole != nil {
		delete(l.arriving, s)
		s.pushed(version, whole, p.GetDelta().GetValueEdits(), wire.FromMs(p.GetUnconfirmedMs()))
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

// pushed takes a list that is newer than the last one, and the edits that make it of that
// one, nil if they are not known. The lock is held; it never blocks.
func (s *Subscription) pushed(version int64, whole *list.List, edits []*wirev1.ValueEdit, unconfirmed time.Duration) {
	if s.closed {
		return
	}
	s.err, s.over, s.list = nil, false, whole
	s.seen = conclave.Datum{Data: s.data, Version: version, Values: whole.Values, Unconfirmed: unconfirmed}
	if s.onPush == nil {
		d := s.seen
		d.Values = slices.Clone(d.Values) // the application may change its copy
		putNewest(s.pushes, d)
		return
	}
	if s.next != nil {
		edits = nil // the callback has not had the list before
	}
	s.next = &push{s.seen, edits}
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
	for s.next != nil && !c.muted {
		p := *s.next
		s.next = nil
		c.mu.Unlock()
		s.onPush(p)
		c.mu.Lock()
	}
	s.calling = false
	c.mu.Unlock()
}

// message returns the subscription as it is sent, with what it has.
func (s *Subscription) message() *wirev1.Subscription {
	m := &wirev1.Subscription{Id: s.id, DataInfoId: s.key, Version: s.seen.Version, Count: uint32(len(s.seen.Values)), HoldMs: wire.Ms(s.limit)}
	if s.list != nil {
		m.Hash, m.Publishers = s.list.Hash(), s.list.Publishers
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
