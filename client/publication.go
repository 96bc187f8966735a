package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Publication is one registration: values under one dataId, until it is
// withdrawn or the client closes. Each change makes a new version; the client
// sends the newest to sessions.
type Publication struct {
	client *Client
	id     string
	data   conclave.DataInfoID
	key    string
	seq    uint64

	// Guarded by client.mu.
	version    int64
	values     []string
	withdrawn  bool
	waiting    int       // its part of client.waiting
	accepted   progress  // by a session
	acceptedBy uint64    // the number of the link whose session has accepted it last
	stored     progress  // by data
	err        error     // why it was refused; unless that passes, it is not sent any more
	forget     time.Time // once data has the withdrawal: until when that is sent again
}

// progress is how far an acknowledgement of one kind has come.
type progress struct {
	version int64         // the highest that is acknowledged
	changed chan struct{} // closed when that or err changes; nil while no caller waits
}

// reach records an acknowledgement, and wakes those that wait for one of this kind;
// refused wakes them in any case.
func (s *progress) reach(version int64, refused bool) {
	if version <= s.version && !refused {
		return
	}
	s.version = max(s.version, version)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Publish publishes values under a dataId. It returns as soon as the client has
// them; use Accepted and Stored to wait for more. While Config.MaxWaiting bytes
// wait for a session, Publish waits, too. An invalid name or value is returned as
// an error before anything is sent. If ctx ends before Publish returns, nothing
// is published; it has no effect afterwards.
func (c *Client) Publish(ctx context.Context, dataID string, values []string, opts ...Option) (*Publication, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, _, err := name(dataID, opts)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if err := conclave.ValidateValues(values); err != nil {
		return nil, fmt.Errorf("publish %s: %w", dataID, err)
	}
	c.mu.Lock()
	if err := c.waitForRoom(ctx); err != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("publish %s: %w", dataID, err)
	}
	c.seq++
	p := &Publication{client: c, id: c.newID(), data: data, key: data.String(), seq: c.seq}
	c.pubs[p.id] = p
	c.advance(p, slices.Clone(values), false)
	c.mu.Unlock()
	return p, nil
}

// waitForRoom waits while MaxWaiting bytes wait for a session. The lock is held,
// and released meanwhile.
func (c *Client) waitForRoom(ctx context.Context) error {
	for !c.closed && c.waiting >= c.config.MaxWaiting {
		room := c.room.Next()
		c.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-c.ended:
			err = ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return fmt.Errorf("%d bytes wait for a session to accept them: %w", c.waiting, c.because(err))
		}
	}
	if c.closed {
		return ErrClosed
	}
	return nil
}

// noteWaiting sets how much of a publication waits for a session. The lock is held.
func (c *Client) noteWaiting(p *Publication, bytes int) {
	c.waiting += bytes - p.waiting
	p.waiting = bytes
	if c.waiting < c.config.MaxWaiting {
		c.room.Notify()
	}
}

// advance makes the next version of a publication and queues it on every link,
// which it wakes. The lock is held.
func (c *Client) advance(p *Publication, values []string, withdrawn bool) {
	p.version++
	p.values, p.withdrawn, p.err = values, withdrawn, nil
	c.noteWaiting(p, p.size())
	for _, l := range c.links {
		l.queue(p)
	}
}

// Update replaces the values.
func (p *Publication) Update(values []string) error {
	if err := conclave.ValidateValues(values); err != nil {
		return fmt.Errorf("update %s: %w", p.data.DataID, err)
	}
	return p.change("update", slices.Clone(values), false)
}

// Withdraw removes the values. The client sends the withdrawal until data has
// it, which Stored waits for, and for a while after that to each new session.
// Withdrawing again does nothing.
func (p *Publication) Withdraw() error { return p.change("withdraw", nil, true) }

func (p *Publication) change(act string, values []string, withdraw bool) error {
	c := p.client
	c.mu.Lock()
	err := p.final()
	switch {
	case err != nil:
	case p.withdrawn && withdraw:
		c.mu.Unlock()
		return nil
	case p.withdrawn:
		err = ErrWithdrawn
	case c.closed:
		err = ErrClosed
	default:
		c.advance(p, values, withdraw)
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s %s: %w", act, p.data.DataID, err)
	}
	return nil
}

// ID returns the registration id.
func (p *Publication) ID() string { return p.id }

// Data returns the full name that it is published under.
func (p *Publication) Data() conclave.DataInfoID { return p.data }

// Version returns the newest version; it grows by one with each change.
func (p *Publication) Version() int64 {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.version
}

// Err returns why the publication was refused (wire.CodeOf returns the kind),
// or nil. One of the code wire.CodeLimitReached may pass: the publication is sent
// again, an older version may be visible, and Update and Withdraw have effect.
func (p *Publication) Err() error {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.err
}

// Accepted waits until a session has accepted the present version: from then on
// the session makes sure that data gets it, even if this client is disconnected
// for less than the client lease. It returns the refusal or the error of ctx,
// if any.
func (p *Publication) Accepted(ctx context.Context) error {
	return p.wait(ctx, "accepted", &p.accepted)
}

// Stored waits until data has the present version, so that every subscriber is
// about to see it. It returns the refusal or the error of ctx, if any.
func (p *Publication) Stored(ctx context.Context) error {
	return p.wait(ctx, "stored", &p.stored)
}

func (p *Publication) wait(ctx context.Context, what string, s *progress) error {
	c := p.client
	c.mu.Lock()
	version := p.version
	for {
		if p.err != nil || s.version >= version {
			err := p.err
			c.mu.Unlock()
			return err
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ended:
			return fmt.Errorf("%s is not %s: %w", p.data.DataID, what, ErrClosed)
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("%s is not %s yet: %w", p.data.DataID, what, c.because(ctx.Err()))
		}
		c.mu.Lock()
	}
}

// acknowledge records an acknowledgement or a refusal of a session. The lock is
// held.
func (p *Publication) acknowledge(accepted, stored int64, err error) {
	p.err = p.errAfter(max(accepted, stored), err)
	p.accepted.reach(max(accepted, stored), err != nil)
	p.stored.reach(stored, err != nil)
	if p.accepted.version >= p.version || passes(p.err) {
		p.client.noteWaiting(p, 0)
	}
	switch c := p.client; {
	case p.final() != nil:
		c.remove(p)
	case p.withdrawn && p.stored.version >= p.version && p.forget.IsZero():
		c.keepTombstone(p, time.Now())
	}
}

// keepTombstone keeps a withdrawal that data has, and has it sent to every new
// session for as long as sessions and data remember it themselves. The lock is
// held.
//
// The session and the leader of the slot, which know of the withdrawal, may be
// lost together, while a follower that was cut off has an older copy. That copy
// would be visible until the session's grace ends. Publications that are not
// withdrawn are sent again anyway; of a withdrawal only this client knows.
func (c *Client) keepTombstone(p *Publication, now time.Time) {
	p.forget = now.Add(c.remember)
	c.tombstones = append(c.tombstones, p)
}

// forget drops the withdrawals that were remembered long enough; a link calls
// it whenever it looks for something to send, which is at each ping at the latest.
// The lock is held.
func (c *Client) forget(now time.Time) {
	old := 0
	for old < len(c.tombstones) && !now.Before(c.tombstones[old].forget) {
		c.remove(c.tombstones[old])
		old++
	}
	if old > 0 {
		c.tombstones = slices.Delete(c.tombstones, 0, old)
	}
}

// remove removes a publication: it is not sent any more, later answers are
// ignored, and no link waits for its acknowledgement. The lock is held.
func (c *Client) remove(p *Publication) {
	delete(c.pubs, p.id)
	c.noteWaiting(p, 0)
	for _, l := range c.links {
		l.dropOwed(p)
	}
}

func (p *Publication) message() *wirev1.Publisher {
	return &wirev1.Publisher{Id: p.id, DataInfoId: p.key, Version: p.version, Values: p.values, Withdrawn: p.withdrawn}
}

// size estimates the size of the message in bytes.
func (p *Publication) size() int {
	n := 64 + len(p.key)
	for _, v := range p.values {
		n += 4 + len(v)
	}
	return n
}
