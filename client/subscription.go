package client

import (
	"fmt"
	"slices"
	"time"

	"conclave"
	"conclave/wire"
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
	limit  time.Duration // see HoldAtMost
	onPush func(conclave.Datum)
	pushes chan conclave.Datum // room for one, the newest; closed by Close

	// Guarded by client.mu.
	seen    conclave.Datum
	hash    uint64          // of seen; 0: nothing was pushed yet
	list    *wire.List      // of seen, with its publishers: a session that knows nothing yet must not push less
	next    *conclave.Datum // the push that waits for the running callback
	calling bool
	closed  bool
	err     error
	over    bool // it was refused because of a limit since the last push
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
	s := &Subscription{client: c, id: c.newID(), data: data, key: data.String(), seq: c.seq, limit: o.limit, onPush: o.onPush, pushes: make(chan conclave.Datum, 1)}
	c.subs[s.id] = s
	for _, l := range c.links {
		l.subscribes = append(l.subscribes, s)
	}
	c.mu.Unlock()
	c.wakeLinks()
	return s, nil
}

// C returns the channel of pushes, unless OnPush takes them. It holds the
// newest only: a slow reader misses versions and never blocks the client. Close
// closes it.
func (s *Subscription) C() <-chan conclave.Datum { return s.pushes }

// Data returns the full name that is subscribed to.
func (s *Subscription) Data() conclave.DataInfoID { return s.data }

// Last returns the last list, and false before the first push.
func (s *Subscription) Last() (conclave.Datum, bool) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.seen, s.hash != 0
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
			delete(l.parts, s)
		}
		close(s.pushes) // pushed sends under the same lock, after checking closed
	}
	c.mu.Unlock()
	c.wakeLinks()
}

// pushed takes one push, if it is newer than the last one. The lock is held; it
// never blocks.
func (s *Subscription) pushed(version int64, list *wire.List, hash uint64, unconfirmed time.Duration) {
	if s.closed || s.hash != 0 && version <= s.seen.Version {
		return
	}
	s.err, s.over = nil, false
	s.seen = conclave.Datum{Data: s.data, Version: version, Values: list.Values, Unconfirmed: unconfirmed}
	s.list = list
	if s.hash = hash; hash == 0 {
		s.hash = wire.ContentHash(s.seen.Values)
	}
	own := s.seen
	own.Values = slices.Clone(own.Values) // the application may change its copy
	if s.onPush == nil {
		putNewest(s.pushes, own)
		return
	}
	s.next = &own
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
		d := *s.next
		s.next = nil
		c.mu.Unlock()
		s.onPush(d)
		c.mu.Lock()
	}
	s.calling = false
	c.mu.Unlock()
}

func (s *Subscription) message() *wirev1.Subscription {
	return &wirev1.Subscription{Id: s.id, DataInfoId: s.key, Version: s.seen.Version, Hash: s.hash, Count: uint32(len(s.seen.Values)), Publishers: s.publishers(), HoldMs: wire.Ms(s.limit)}
}

// publishers returns those of the last list.
func (s *Subscription) publishers() []uint32 {
	if s.list == nil {
		return nil
	}
	return s.list.Publishers
}
