package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// registrants registers for clients that send requests, and have no stream: each
// registration is an owner of its own, as if the connection of its client had just
// broken, and each request for it is its client that comes back. It has the same
// lease as any broken connection, with its own time to live, and the leases know no
// difference when it ends.
//
//	          a request renews it
//	             +--------+
//	             v        |
//	(none) --> leased ----+---- withdrawn: a tombstone ----> forgotten
//	  ^          |                                             ^
//	  |          +-- its time to live has passed --> removed --+
//	  +--------------------------------------------------------+
//
// A lease is at most as long as a session may publish what it has not heard of
// (registry.FreshFor).
type registrants struct {
	config      Config
	registry    *locked
	clients     *clients
	room        *room
	refusals    prometheus.Counter
	wakeWriters func()
}

const (
	leastTTL     = time.Second
	storedWait   = 3 * time.Second // how long an answer waits for data
	registerWait = 5 * time.Second // how long a new registration waits for room
	ownerBytes   = 1 << 10         // what a registrant takes beside its registration, about
	maxSkew      = 24 * time.Hour  // by how much a version may be above the clock
)

// registrant names one registration: the identity of the token to whom it belongs, and
// an id under which its client keeps it.
type registrant struct {
	identity, id  string
	data          conclave.DataInfoID
	address, host string // from which the request comes
}

// registrationID returns the id of the registration, the same at every session.
func (x registrant) registrationID() string {
	digest := sha256.Sum256([]byte(strings.Join([]string{x.identity, x.data.String(), x.id}, "\x00")))
	return reserved + hex.EncodeToString(digest[:16])
}

// registered is a registration as it is held after a request.
type registered struct {
	version int64
	ttl     time.Duration
	stored  bool
}

// put registers values, or renews what is registered: a version that is held already,
// with the same values, is that registration. With version 0 it chooses a version above
// what is held. It returns once data has it, or after storedWait.
func (g *registrants) put(ctx context.Context, x registrant, version int64, values []string, ttl time.Duration) (registered, error) {
	return g.send(ctx, x, ttl, &wirev1.Publisher{Version: version, Values: values})
}

// withdraw leaves a tombstone above the version, also if nothing is held here: another
// session may have it.
func (g *registrants) withdraw(ctx context.Context, x registrant, version int64) (registered, error) {
	if version > 0 {
		version++
	}
	return g.send(ctx, x, 0, &wirev1.Publisher{Version: version, Withdrawn: true})
}

// renew renews the lease of a version that is held here. After the end of the lease its
// client has to register again, since it may have withdrawn at another session what a
// late request names.
func (g *registrants) renew(ctx context.Context, x registrant, version int64) (out registered, err error) {
	if err := g.refusal(x); err != nil {
		return out, err
	}
	id := x.registrationID()
	g.registry.do(func(r *registry.Registry) {
		p, owner, _ := r.Find(id)
		if p == nil || p.Withdrawn || p.Version != version {
			err = wire.Errorf(wire.CodeNotFound, "this session does not have version %d of registration %q", version, x.id)
			return
		}
		now := time.Now()
		conn := g.clients.renewLease(owner, 0, now)
		if conn == nil {
			err = wire.Errorf(wire.CodeNotFound, "the lease of registration %q has ended", x.id)
			return
		}
		out.version, out.ttl = version, conn.linger
	})
	if err != nil {
		return out, err
	}
	out.stored, err = g.awaitStored(ctx, id, version)
	return out, err
}

// send puts a version of a registration into the session's set. With a ttl of 0 its lease
// stays as it is.
func (g *registrants) send(ctx context.Context, x registrant, ttl time.Duration, p *wirev1.Publisher) (out registered, err error) {
	if err := g.refusal(x); err != nil {
		return out, err
	}
	p.Id, p.DataInfoId = x.registrationID(), x.data.String()
	if err := g.check(p); err != nil {
		return out, err
	}
	if _, later := g.room.split([]*wirev1.Publisher{p}); len(later) > 0 {
		limited, cancel := context.WithTimeout(ctx, registerWait)
		err := g.room.wait(limited)
		cancel()
		if err != nil {
			return out, wire.Errorf(wire.CodeUnavailable, "the data nodes have not stored earlier registrations yet")
		}
	}
	g.registry.do(func(r *registry.Registry) { err = g.take(r, x, ttl, p) })
	if err != nil {
		g.refusals.Inc()
		return out, err
	}
	g.wakeWriters()
	out = registered{version: p.Version, ttl: ttl}
	out.stored, err = g.awaitStored(ctx, p.Id, p.Version)
	return out, err
}

// check checks what a client sends. A version far above the clock could not be replaced
// by one that a session chooses.
func (g *registrants) check(p *wirev1.Publisher) error {
	chosen := p.Version == 0
	if chosen {
		p.Version = 1 // until take chooses it
	}
	if err := wire.CheckPublisher(p); err != nil {
		return err
	}
	if most := g.config.Now().Add(maxSkew).UnixMicro(); p.Version > most {
		return wire.Errorf(wire.CodeBadRequest, "version %d is above all that a session chooses (%d)", p.Version, most)
	}
	if chosen {
		p.Version = 0
	}
	return nil
}

// take registers p, whose version it may have to choose: as the time in microseconds, so
// that it is above what another session has chosen before, or higher if that is held. The
// registry's lock is held.
func (g *registrants) take(r *registry.Registry, x registrant, ttl time.Duration, p *wirev1.Publisher) error {
	now := time.Now()
	have, owner, _ := r.Find(p.Id)
	switch {
	case have == nil:
		if p.Version == 0 {
			p.Version = g.config.Now().UnixMicro()
		}
	case p.Version == 0:
		p.Version = max(g.config.Now().UnixMicro(), have.Version+1)
	case p.Withdrawn && have.Withdrawn && have.Version >= p.Version:
		p.Version = have.Version // it is withdrawn
	case p.Version < have.Version:
		return wire.Errorf(wire.CodeConflict, "registration %q is at version %d, which is above %d", x.id, have.Version, p.Version)
	case p.Version == have.Version && (have.Withdrawn != p.Withdrawn || !slices.Equal(have.Values, p.Values)):
		return wire.Errorf(wire.CodeConflict, "version %d of registration %q has other values", p.Version, x.id)
	}
	conn := g.clients.renewLease(owner, ttl, now)
	known := conn != nil
	if !known {
		conn = &connection{leased: true, linger: cmp.Or(ttl, registry.FreshFor(g.config.SessionGrace)), since: g.config.Now(), Owner: &registry.Owner{
			Client: x.identity + "@" + x.host, Name: cut(x.id, maxNameBytes), Identity: x.identity, Address: x.address, Host: x.host, Takes: ownerBytes,
		}}
		conn.Renew(now, conn.linger)
	}
	if _, err := r.Put(conn.Owner, p, now); err != nil {
		if !known {
			conn.End()
		}
		return err
	}
	if !known {
		g.clients.lease(conn, now)
	}
	return nil
}

// awaitStored waits until data has a version of a registration, for storedWait.
func (g *registrants) awaitStored(ctx context.Context, id string, version int64) (stored bool, err error) {
	limit := time.NewTimer(storedWait)
	defer limit.Stop()
	for {
		var answered <-chan struct{}
		g.registry.do(func(r *registry.Registry) {
			p, owner, has := r.Find(id)
			switch conn := g.clients.leasedBy(owner); {
			case p == nil:
				err = wire.Errorf(wire.CodeConflict, "the data nodes refuse the registration, or it was removed meanwhile")
			case has && p.Version >= version:
				stored = true
			case conn != nil:
				answered = conn.answered.Next()
			}
		})
		if stored || err != nil || answered == nil {
			return stored, err
		}
		select {
		case <-answered:
		case <-limit.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// refusal returns why requests for a registration are not taken, or nil. One that is
// held here is expected to go then.
func (g *registrants) refusal(x registrant) error {
	err := g.clients.refuseRegistrant(x.identity + "@" + x.host)
	if err != nil {
		g.registry.do(func(r *registry.Registry) {
			_, owner, _ := r.Find(x.registrationID())
			g.clients.expectEnd(owner)
		})
	}
	return err
}
