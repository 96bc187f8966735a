package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// registrants registers for clients that send requests and have no stream. Each
// registration has an owner of its own, as if the connection of its client had just broken:
// a request for it is the return of the client, and its time to live is the lease, which
// ends as that of a broken connection does.
//
//	          a request renews it
//	             +--------+
//	             v        |
//	(none) --> leased ----+---- withdrawn: a tombstone ----> forgotten
//	  ^          |                                             ^
//	  |          +-- its time to live has passed --> removed --+
//	  +--------------------------------------------------------+
//
// A lease is at most registry.FreshFor: so long may a session publish for a client that
// may have withdrawn its registration at another session. That of a longer time to live,
// which clients of Consul have, is renewed by leases.run until then.
type registrants struct {
	config      Config
	registry    *locked
	clients     *clients
	room        *room
	refusals    prometheus.Counter
	wakeWriters func()
}

const (
	leastTTL    = time.Second
	answerWait  = 1500 * time.Millisecond // how long an answer waits for room and for data; see answerBy
	answerLeast = 500 * time.Millisecond
	ownerBytes  = 1 << 10 // memory of a registrant beside its registration, about
)

// answerBy returns when a request is answered, whatever it has waited for: in half of the
// time after which its client would renew a lease of this time to live, and go to another
// session (0: there is none to renew). Of a short one it is three quarters of that time, up
// to answerLeast: data nodes need as long as for others.
func answerBy(ttl time.Duration) time.Time {
	wait := answerWait
	if ttl > 0 {
		wait = min(wait, max(ttl/(2*renewals), min(answerLeast, 3*ttl/(4*renewals))))
	}
	return time.Now().Add(wait)
}

// mostVersion is the highest version that a client may begin with: in microseconds a time
// in the next century. It leaves as many above it, to go on. No clock is compared, since
// that of a session may be wrong.
const mostVersion = conclave.MaxVersion / 2

// registrant names one registration: the identity of the token to whom it belongs, and
// an id under which its client keeps it.
type registrant struct {
	serve.Caller // of the request
	id           string
	data         conclave.DataInfoID
}

// ownerOf returns an owner for a caller, with a name of what it asks for.
func ownerOf(c serve.Caller, name string) *registry.Owner {
	return &registry.Owner{Client: c.Client(), Name: cut(name, maxNameBytes), Identity: c.Identity, Address: c.Address, Host: c.Host(), Takes: ownerBytes}
}

// registrationID returns the id of the registration, the same at every session.
func (x registrant) registrationID() string {
	digest := sha256.Sum256([]byte(strings.Join([]string{x.Identity, x.data.String(), x.id}, "\x00")))
	return reserved + hex.EncodeToString(digest[:16])
}

// registered is a registration as it is held after a request.
type registered struct {
	version int64
	ttl     time.Duration
	stored  bool
}

// held is why a version is not taken, or has no effect: the registration has this one.
type held struct {
	error
	version int64
}

func (h held) Unwrap() error { return h.error }

func heldAt(x registrant, version int64, why string) error {
	return held{wire.Errorf(wire.CodeConflict, "registration %q is at version %d: %s: send version %d, or none", x.id, version, why, version+1), version}
}

// put registers values, or renews what is registered: a version that is held already,
// with the same values, is that registration. With version 0 it chooses one above all
// that this session and data have, if the values are not held already. It returns once
// data has it, or when answerBy says.
func (g *registrants) put(ctx context.Context, x registrant, version int64, values []string, ttl time.Duration) (registered, error) {
	return g.send(ctx, x, ttl, &wirev1.Publisher{Version: version, Values: values})
}

// withdraw leaves a tombstone above the version, also if nothing is held here: another
// session may have it. With version 0 it is above all that this session and data have.
func (g *registrants) withdraw(ctx context.Context, x registrant, version int64) (registered, error) {
	if version > 0 {
		version++
	}
	return g.send(ctx, x, 0, &wirev1.Publisher{Version: version, Withdrawn: true})
}

// renew renews the lease of a version that is held here. After the end of the lease its
// client has to register again: it may have withdrawn that version at another session, and
// the request may be late. Data is asked each time whether another version hides it.
func (g *registrants) renew(ctx context.Context, x registrant, version int64) (out registered, err error) {
	if err := g.refusal(x, true); err != nil {
		return out, err
	}
	id := x.registrationID()
	g.registry.do(func(r *registry.Registry) {
		if err = g.mayTake(ctx); err != nil {
			return
		}
		p, owner, _ := r.Find(id)
		if p == nil || p.Withdrawn || p.Version != version {
			err = wire.Errorf(wire.CodeNotFound, "this session does not have version %d of registration %q", version, x.id)
			return
		}
		conn := g.clients.renewLease(owner, 0, time.Now())
		if conn == nil {
			err = wire.Errorf(wire.CodeNotFound, "the lease of registration %q has ended", x.id)
			return
		}
		out.version, out.ttl = version, conn.linger
		conn.hiddenBy = 0
		r.Rewrite(id)
	})
	if err != nil {
		return out, err
	}
	g.wakeWriters()
	return g.awaitStored(ctx, x, out, answerBy(out.ttl))
}

// mostTries is how often a version is chosen for a request, each above the one that data
// has named: other requests for the registration may come at the same time.
const mostTries = 8

// send puts a version of a registration into the session's set. With a ttl of 0 its lease
// stays as it is.
func (g *registrants) send(ctx context.Context, x registrant, ttl time.Duration, p *wirev1.Publisher) (out registered, err error) {
	if err := g.refusal(x, !p.Withdrawn); err != nil {
		return out, err
	}
	p.Id, p.DataInfoId = x.registrationID(), x.data.String()
	if err := g.check(x, p); err != nil {
		return out, err
	}
	by := answerBy(ttl)
	if _, later := g.room.split([]*wirev1.Publisher{p}); len(later) > 0 {
		limited, cancel := context.WithDeadline(ctx, by)
		err := g.room.wait(limited)
		cancel()
		if err != nil {
			return out, wire.Errorf(wire.CodeUnavailable, "the data nodes have not stored earlier registrations yet")
		}
	}
	chosen := p.Version == 0
	for range mostTries {
		if chosen {
			p = &wirev1.Publisher{Id: p.Id, DataInfoId: p.DataInfoId, Values: p.Values, Withdrawn: p.Withdrawn}
		}
		g.registry.do(func(r *registry.Registry) { out.ttl, err = g.take(ctx, r, x, ttl, p) })
		if err != nil {
			g.refusals.Inc()
			return out, err
		}
		g.wakeWriters()
		out.version = p.Version
		if out, err = g.awaitStored(ctx, x, out, by); !chosen {
			return out, err
		}
		if _, hides := errors.AsType[held](err); !hides {
			return out, err
		}
	}
	return out, wire.Errorf(wire.CodeUnavailable, "others register %q at the same time", x.id)
}

// check returns why a registration is invalid, or nil.
func (g *registrants) check(x registrant, p *wirev1.Publisher) error {
	chosen := p.Version == 0
	if chosen {
		p.Version = 1 // until take chooses it
	}
	if err := wire.CheckPublisher(p); err != nil {
		return err
	}
	most := int64(mostVersion)
	g.registry.do(func(r *registry.Registry) { // whose versions may have gone on above it
		have, owner, _ := r.Find(p.Id)
		most = max(most, have.GetVersion()+1)
		if conn := g.clients.leasedBy(owner); conn != nil {
			most = max(most, conn.hiddenBy+1)
		}
	})
	if p.Version > most {
		return wire.Errorf(wire.CodeBadRequest, "version %d of registration %q: want the time in microseconds, here %d at most, or none", p.Version, x.id, most)
	}
	if chosen {
		p.Version = 0
	}
	return nil
}

// mayTake returns why a request is not carried out now, or nil: it may have waited since
// refusal. A client that has gone on without the answer may have done other things since.
// The registry's lock is held.
func (g *registrants) mayTake(ctx context.Context) error {
	_, err := g.clients.refuseRequest()
	return cmp.Or(ctx.Err(), err)
}

// take registers p, whose version it may have to choose, and returns its time to live. The
// registry's lock is held.
func (g *registrants) take(ctx context.Context, r *registry.Registry, x registrant, ttl time.Duration, p *wirev1.Publisher) (time.Duration, error) {
	if err := g.mayTake(ctx); err != nil {
		return 0, err
	}
	now := time.Now()
	have, owner, _ := r.Find(p.Id)
	hiddenBy := int64(0)
	if conn := g.clients.leasedBy(owner); conn != nil {
		hiddenBy = conn.hiddenBy
	}
	same := have != nil && have.Withdrawn == p.Withdrawn && slices.Equal(have.Values, p.Values)
	switch {
	case p.Version == 0 && same && !isHidden(have, hiddenBy):
		p.Version = have.Version
	case p.Version == 0:
		p.Version = max(g.config.Now().UnixMicro(), have.GetVersion()+1, hiddenBy+1)
	case have == nil:
	case p.Withdrawn && have.Withdrawn && have.Version >= p.Version:
		p.Version = have.Version // it is withdrawn
	case p.Version < have.Version:
		return 0, heldAt(x, max(have.Version, hiddenBy), fmt.Sprintf("that is above %d", p.Version))
	case p.Version == have.Version && !same:
		return 0, heldAt(x, max(have.Version, hiddenBy), "it has other values")
	}
	longest := registry.FreshFor(g.config.SessionGrace)
	conn := g.clients.renewLease(owner, min(ttl, longest), now)
	known := conn != nil
	if !known {
		conn = &connection{leased: true, linger: min(cmp.Or(ttl, longest), longest), since: g.config.Now(), Owner: ownerOf(x.Caller, x.id)}
		conn.Renew(now, conn.linger)
	}
	stored, err := r.Put(conn.Owner, p, now)
	if err != nil {
		if !known {
			conn.End()
		}
		return 0, err
	}
	conn.until = now.Add(ttl)
	if conn.hiddenBy = 0; stored {
		r.Rewrite(p.Id)
	}
	if !known {
		g.clients.lease(conn, now)
	}
	return conn.linger, nil
}

// awaitStored waits until data has a version of a registration, or until a time. It
// returns an error if another version hides it.
func (g *registrants) awaitStored(ctx context.Context, x registrant, out registered, by time.Time) (registered, error) {
	limit := time.NewTimer(time.Until(by))
	defer limit.Stop()
	for {
		var answered <-chan struct{}
		var err error
		g.registry.do(func(r *registry.Registry) {
			p, owner, stored := r.Find(x.registrationID())
			conn := g.clients.leasedBy(owner)
			switch {
			case p == nil:
				err = wire.Errorf(wire.CodeUnavailable, "the data nodes refuse the registration, or it was removed meanwhile")
			case conn != nil && isHidden(p, conn.hiddenBy):
				err = heldAt(x, conn.hiddenBy, "at another session")
			case stored && p.Version >= out.version:
				out.stored = true
			case conn != nil:
				answered = conn.answered.Next()
			}
		})
		if out.stored || err != nil || answered == nil {
			return out, err
		}
		select {
		case <-answered:
		case <-limit.C:
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// refusal returns why requests for a registration are not taken, or nil. A client that is
// sent to another session may find none that takes it: while it stays, its lease is
// renewed.
func (g *registrants) refusal(x registrant, stays bool) error {
	moves, err := g.clients.refuseRequest()
	if moves {
		g.registry.do(func(r *registry.Registry) {
			_, owner, _ := r.Find(x.registrationID())
			if stays {
				g.clients.renewLease(owner, 0, time.Now())
			}
			g.clients.expectEnd(owner)
		})
	}
	return err
}
