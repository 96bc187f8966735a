package session

import (
	"errors"
	"slices"
	"strings"
	"time"

	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

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
				err = conn.mayPublish()
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

func refusal(id string, err error) *wirev1.Refusal {
	out := &wirev1.Refusal{Id: cut(id, maxNameBytes), Code: string(wire.CodeInternal), Message: err.Error()}
	var e *wire.Error
	if errors.As(err, &e) {
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
