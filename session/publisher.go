package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// register registers what a client has sent: at once, or when there is room for it.
// serving ends with ctx.
func (c *clientService) register(ctx context.Context, conn *connection, publishers []*wirev1.Publisher) {
	c.refuse(conn, c.registerNow(ctx, conn, publishers))
	conn.waiting.wait(ctx, conn.extend)
}

// registerNow registers what there is room for and lets the rest wait. It returns the
// refusals of what is too large for that: their client sends it again later.
func (c *clientService) registerNow(ctx context.Context, conn *connection, publishers []*wirev1.Publisher) (refused []*wirev1.Refusal) {
	w := conn.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range publishers {
		w.remove(p.GetId()) // this version is newer
	}
	now, later := c.room.split(publishers)
	c.put(conn, now)
	for _, p := range w.add(newest(later)) {
		refused = append(refused, refusal(p.GetId(), wire.Errorf(wire.CodeLimitReached,
			"%d bytes are too many to wait until the data nodes have stored earlier registrations", sizeOf(p))))
	}
	w.serve(c.config.Logger, conn.abort, func() {
		for more := true; more && c.room.wait(ctx) == nil; {
			more = c.registerNext(conn)
		}
	})
	return refused
}

// newest returns of registrations with one id the one with the highest version.
func newest(publishers []*wirev1.Publisher) []*wirev1.Publisher {
	versions := map[string]int64{}
	for _, p := range publishers {
		versions[p.GetId()] = max(versions[p.GetId()], p.GetVersion())
	}
	return slices.DeleteFunc(publishers, func(p *wirev1.Publisher) bool { return p.GetVersion() < versions[p.GetId()] })
}

// registerNext registers the first of what waits, up to a large one, and reports
// whether there is more.
func (c *clientService) registerNext(conn *connection) (more bool) {
	w := conn.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	c.put(conn, w.next(putsAtOnce, maxWaiting))
	return w.more()
}

// putsAtOnce is how many registrations are put under one hold of the registry's
// lock: many enough that clients do not wait for each other at each one, few
// enough that whatever else needs the lock waits for less than a millisecond.
const putsAtOnce = 128

// put puts registrations into the set and answers each: accepted (the session is
// responsible for it from now on), stored if data is known to have it, or refused.
func (c *clientService) put(conn *connection, publishers []*wirev1.Publisher) {
	if len(publishers) == 0 {
		return
	}
	defer c.enterMany(len(publishers)).Leave()
	accepted := make([]registry.Ack, 0, len(publishers))
	var stored []registry.Ack
	var refused []*wirev1.Refusal
	refuse := func(id string, err error) { refused = append(refused, refusal(id, err)) }
	for chunk := range slices.Chunk(publishers, putsAtOnce) {
		puts := make([]*wirev1.Publisher, 0, len(chunk))
		for _, in := range chunk {
			err := wire.CheckPublisher(in)
			if err == nil {
				err = cmp.Or(conn.mayPublish(), notReserved(in.GetId()))
			}
			if err != nil {
				refuse(in.GetId(), err)
				continue
			}
			puts = append(puts, in)
		}
		c.registry.do(func(r *registry.Registry) {
			now := time.Now()
			for _, p := range puts {
				known, err := r.Put(conn.Owner, p, now)
				if err != nil {
					refuse(p.GetId(), err)
					continue
				}
				ack := registry.Ack{ID: p.GetId(), Version: p.GetVersion(), To: conn.Owner}
				accepted = append(accepted, ack)
				if known {
					stored = append(stored, ack)
				}
			}
		})
	}
	c.refusals.Add(float64(len(refused)))
	conn.out.add(func(o *registry.Outbox) { o.Answer(accepted, stored, refused) })
	c.wakeWriters()
}

// maxWaiting is how many bytes of new registrations of one client may wait before
// its session reads no further message of it: more than the two
// messages that a client sends before they are accepted (client/send.go). A
// registration that is larger than that does not count, because what the client
// withdraws must not wait behind it: it counts for the intake of its address instead,
// and is refused if that is full.
const maxWaiting = 192 << 10

// sizeOf returns the bytes of a registration, about.
func sizeOf(p *wirev1.Publisher) (n int) {
	n = 64 + len(p.GetId()) + len(p.GetDataInfoId())
	for _, v := range p.GetValues() {
		n += 2 + len(v)
	}
	return n
}

// maxUnsent is how many bytes of changes a session takes before data has stored
// them, of which each data node accounts for half at most: what two data nodes on
// a busy machine store within two seconds, less than half a client lease
// (ADR 0079).
const maxUnsent = 8 << 20

// room makes clients wait that send new registrations faster than data stores
// them. What a client is not answered it does not send more of (client/send.go),
// so the overload waits at the clients, where Publish blocks. Withdrawals, and
// newer versions of what is held already, do not wait: they replace something.
type room struct {
	registry *locked
	limit    int // bytes; see registry.Full
	settled  signal.Broadcast
	waits    prometheus.Counter
}

// split returns what of a client's registrations is taken at once, and what has to
// wait.
func (m *room) split(publishers []*wirev1.Publisher) (now, later []*wirev1.Publisher) {
	m.registry.do(func(r *registry.Registry) {
		if now = publishers; !r.Full(m.limit) {
			return
		}
		now = nil
		for _, p := range publishers {
			if p.GetWithdrawn() || r.Knows(p.GetId()) {
				now = append(now, p)
			} else {
				later = append(later, p)
			}
		}
	})
	if len(later) > 0 {
		m.waits.Inc()
	}
	return now, later
}

// wait waits until there is room, or ctx ends.
func (m *room) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		settled := m.settled.Next()
		if !with(m.registry, func(r *registry.Registry) bool { return r.Full(m.limit) }) {
			break
		}
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// reserved begins the ids of registrations that are sent by requests.
const reserved = "request-"

// notReserved returns why a client with a stream may not use a registration id, or nil.
// Those of registrants can be computed, so they belong to an identity only because no
// other way leads to them.
func notReserved(id string) error {
	if strings.HasPrefix(id, reserved) {
		return wire.Errorf(wire.CodeForbidden, "registration ids that begin with %q are those of requests", reserved)
	}
	return nil
}

func refusal(id string, err error) *wirev1.Refusal {
	out := &wirev1.Refusal{Id: cut(id, maxNameBytes), Code: string(wire.CodeInternal), Message: err.Error()}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		out.Code, out.Message = string(e.Code), e.Message
	}
	out.Message = cut(out.Message, 4*maxNameBytes)
	return out
}

// cut returns the first n bytes of s at most, without half a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
