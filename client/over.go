package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
)

// over holds what a session has refused because of a limit of what a client or its
// address may hold there. The limit of an address may be reached because of other
// clients, so each of these is sent to the session again after a while, which grows,
// and, like all else, to the next session.
type over struct {
	pubs map[*Publication]bool
	subs map[*Subscription]bool
	at   time.Time // when they are sent again
	wait time.Duration
	last time.Time // when something was refused
}

// The time after which what is over a limit is sent again.
const (
	overFirst = 5 * time.Second
	overMost  = 2 * time.Minute
)

// passes reports whether a refusal may pass.
func passes(err error) bool { return wire.CodeOf(err) == wire.CodeLimitReached }

// final returns why the publication was refused for good, or nil.
func (p *Publication) final() error {
	if passes(p.err) {
		return nil
	}
	return p.err
}

// errAfter returns the error of the publication after a session has accepted a version
// or, with err, refused it.
func (p *Publication) errAfter(accepted int64, err error) error {
	switch {
	case err != nil && p.final() == nil:
		return err
	case err == nil && passes(p.err) && accepted >= p.version:
		return nil
	}
	return p.err
}

// plan sets when what was refused is sent again, unless that is set. The wait does not
// grow from refusals that are long past.
func (o *over) plan(now time.Time) {
	if now.Sub(o.last) > 2*overMost {
		o.wait = 0
	}
	o.last = now
	if o.at.IsZero() {
		o.wait = sleep.Longer(o.wait, overFirst, overMost)
		o.at = now.Add(o.wait)
	}
}

// accept records that the session has accepted a version of a publication.
func (o *over) accept(p *Publication, version int64) {
	if version >= p.version {
		delete(o.pubs, p)
	}
}

// overLimit records that a publication is over a limit of the session. A newer version
// that waits may fit. The client's lock is held.
func (l *link) overLimit(p *Publication, err error) {
	if l.waiting.has(p) {
		if l.windows.drop(p, time.Now()) {
			l.ready.Set()
		}
		return
	}
	if p.err == nil {
		l.client.log.Error("publication refused for now", "dataId", p.data.DataID, "id", p.id, "error", err)
	}
	p.acknowledge(0, 0, err)
	l.dropOwed(p)
	if l.over.pubs == nil {
		l.over.pubs = map[*Publication]bool{}
	}
	l.over.pubs[p] = true
	l.over.plan(time.Now())
}

// subscriptionOverLimit does the same of a subscription. What it has stays. The
// client's lock is held.
func (l *link) subscriptionOverLimit(s *Subscription, err error) {
	if !s.over {
		l.client.log.Error("subscription refused for now", "dataId", s.data.DataID, "id", s.id, "error", err)
	}
	s.err, s.over = err, true
	if l.over.subs == nil {
		l.over.subs = map[*Subscription]bool{}
	}
	l.over.subs[s] = true
	l.over.plan(time.Now())
}

// sendAgain queues what was over a limit, when it is time. A link calls it whenever it
// looks for something to send, which is at each ping at the latest. The client's lock
// is held.
func (l *link) sendAgain(now time.Time) {
	if l.over.at.IsZero() || now.Before(l.over.at) {
		return
	}
	pubs := slices.SortedFunc(maps.Keys(l.over.pubs), func(a, b *Publication) int { return cmp.Compare(a.seq, b.seq) })
	subs := slices.SortedFunc(maps.Keys(l.over.subs), func(a, b *Subscription) int { return cmp.Compare(a.seq, b.seq) })
	l.over.pubs, l.over.subs, l.over.at = nil, nil, time.Time{}
	for _, p := range pubs {
		if l.client.pubs[p.id] == p {
			l.queue(p)
		}
	}
	l.subscribes = append(l.subscribes, subs...)
}
