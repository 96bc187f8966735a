package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Publication is one registration: values offered under one dataId, until it is
// withdrawn or the client closes. Each change is a version of it; the newest is
// what the client keeps telling sessions.
type Publication struct {
	client *Client
	id     string
	data   conclave.DataInfoID
	key    string
	seq    uint64

	// Guarded by client.mu.
	version   int64
	values    []string
	withdrawn bool
	accepted  int64         // the highest version that a session has taken into its set
	stored    int64         // the highest version that data has
	err       error         // it was refused; nothing of it is told any more
	forget    time.Time     // of one that data knows to be withdrawn: until when that is told again
	changed   chan struct{} // closed at the next progress; nil while nobody waits
}

// Publish offers values under a dataId. It returns once the client keeps them;
// Accepted and Stored wait for the rest. What is wrong with the name or the
// values is said here, before anything is sent. ctx is asked once: when it is
// over already, nothing is published.
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
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("publish %s: %w", dataID, ErrClosed)
	}
	c.seq++
	p := &Publication{client: c, id: c.newID(), data: data, key: data.String(), seq: c.seq}
	c.pubs[p.id] = p
	c.advance(p, slices.Clone(values), false)
	c.mu.Unlock()
	c.wakeLinks()
	return p, nil
}

// advance makes the next version of a publication and queues it on every link.
// The lock is held.
func (c *Client) advance(p *Publication, values []string, withdrawn bool) {
	p.version++
	p.values, p.withdrawn = values, withdrawn
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

// Withdraw takes the values away. The client tells it until data knows, which
// Stored waits for, and for a while after that to each new session. Withdrawing
// again does nothing.
func (p *Publication) Withdraw() error { return p.change("withdraw", nil, true) }

func (p *Publication) change(act string, values []string, withdraw bool) error {
	c := p.client
	c.mu.Lock()
	err := p.err
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
	c.wakeLinks()
	return nil
}

// ID is the registration id.
func (p *Publication) ID() string { return p.id }

// Data is the full name that it is published under.
func (p *Publication) Data() conclave.DataInfoID { return p.data }

// Version is the newest version; it grows by one with each change.
func (p *Publication) Version() int64 {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.version
}

// Err is why the publication was refused (wire.CodeOf tells the kind); nil as
// long as it was not.
func (p *Publication) Err() error {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.err
}

// Accepted waits until a session has the version of now in its set: from then on
// the session tells data by itself, also when this client goes away for less
// than the client lease. The error is the refusal, or that of ctx.
func (p *Publication) Accepted(ctx context.Context) error {
	return p.wait(ctx, "accepted", func() int64 { return p.accepted })
}

// Stored waits until data has the version of now: every subscriber is about to
// see it. The error is the refusal, or that of ctx.
func (p *Publication) Stored(ctx context.Context) error {
	return p.wait(ctx, "stored", func() int64 { return p.stored })
}

func (p *Publication) wait(ctx context.Context, what string, reached func() int64) error {
	c := p.client
	c.mu.Lock()
	version := p.version
	for {
		if p.err != nil || reached() >= version {
			err := p.err
			c.mu.Unlock()
			return err
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ended:
			return fmt.Errorf("%s is not %s: %w", p.data.DataID, what, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("%s is not %s yet: %w", p.data.DataID, what, ctx.Err())
		}
		c.mu.Lock()
	}
}

// progress notes what a session acknowledged, or refused. The lock is held.
func (p *Publication) progress(accepted, stored int64, err error) {
	p.accepted, p.stored = max(p.accepted, accepted, stored), max(p.stored, stored)
	if err != nil && p.err == nil {
		p.err = err
	}
	switch c := p.client; {
	case p.err != nil:
		c.erase(p)
	case p.withdrawn && p.stored >= p.version && p.forget.IsZero():
		c.bury(p, time.Now())
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// bury keeps a withdrawal that data has, to tell it to every session that comes
// next, for as long as sessions and data remember it themselves. The lock is held.
//
// Whoever was told may be lost at once: the session, and the leader of the slot,
// whose follower was cut off and has an older copy. That copy would be shown until
// the session's grace is over. What still stands is told anew anyway; of what was
// withdrawn only this client knows.
func (c *Client) bury(p *Publication, now time.Time) {
	p.forget = now.Add(c.remember)
	c.buried = append(c.buried, p)
}

// forget drops the withdrawals that were remembered long enough; a link does so
// at each ping.
func (c *Client) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := 0
	for old < len(c.buried) && !now.Before(c.buried[old].forget) {
		c.erase(c.buried[old])
		old++
	}
	c.buried = slices.Delete(c.buried, 0, old)
}

// erase ends what is told of a publication. No later answer finds it: no session
// owes one any more. The lock is held.
func (c *Client) erase(p *Publication) {
	delete(c.pubs, p.id)
	for _, l := range c.links {
		l.settle(p)
	}
}

func (p *Publication) message() *wirev1.Publisher {
	return &wirev1.Publisher{Id: p.id, DataInfoId: p.key, Version: p.version, Values: p.values, Withdrawn: p.withdrawn}
}
