package session

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/list"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
)

// polls are the requests that wait for lists. Each is a subscription like that of a
// client with a stream, at the same pace and within the same limits, for as long as the
// request lasts.
type polls struct {
	registry    *locked
	clients     *clients
	pace        *pace
	waiting     *admit.Budget // bytes of those that wait for their turn, by host
	wakeReaders func()
	opened      atomic.Int64
}

// Limits of requests that wait.
const (
	readWait = 5 * time.Second // for a data node
	readHold = time.Second     // for values that may be missing
)

// seen is the list that the client of a poll has, in the form in which a subscription
// brings it from another session. Its text is the cursor of the version.
type seen struct {
	version    int64
	hash       uint64
	count      uint32
	publishers []uint32 // of the list, if they are at most mostNamed
}

// mostNamed is how many publishers a cursor names. After all data nodes and sessions were
// lost the push guard compares them; of a longer list it knows their number.
const mostNamed = 256

var cursorForm = regexp.MustCompile(`^([0-9]{1,16})-([0-9a-f]{16})-([0-9]{1,9})(?:-([0-9A-Za-z_-]+))?$`)

// seenIn returns what the client of a push has.
func seenIn(version int64, l *list.List) seen {
	c := seen{version: version, hash: l.Hash(), count: uint32(len(l.Values))}
	if len(l.Publishers) <= mostNamed {
		c.publishers = l.Publishers
	}
	return c
}

// seenOf parses a cursor. "" is that of a client that has nothing.
func seenOf(text string) (c seen, err error) {
	if text == "" {
		return c, nil
	}
	parts := cursorForm.FindStringSubmatch(text)
	if parts == nil {
		return c, wire.Errorf(wire.CodeBadRequest, "after %.60q is no cursor: send one that this service was answered, or none", text)
	}
	c.version, _ = strconv.ParseInt(parts[1], 10, 64)
	c.hash, _ = strconv.ParseUint(parts[2], 16, 64)
	count, _ := strconv.ParseUint(parts[3], 10, 32)
	c.count = uint32(count)
	named, err := base64.RawURLEncoding.DecodeString(parts[4])
	if err != nil || len(named)%4 != 0 || len(named) > 4*mostNamed {
		return c, wire.Errorf(wire.CodeBadRequest, "after %.60q is no cursor: a part of it is missing", text)
	}
	for ; len(named) > 0; named = named[4:] {
		c.publishers = append(c.publishers, binary.LittleEndian.Uint32(named))
	}
	return c, nil
}

func (c seen) String() string {
	out := fmt.Sprintf("%d-%016x-%d", c.version, c.hash, c.count)
	if len(c.publishers) == 0 {
		return out
	}
	var named []byte
	for _, p := range c.publishers {
		named = binary.LittleEndian.AppendUint32(named, p)
	}
	return out + "-" + base64.RawURLEncoding.EncodeToString(named)
}

// first returns a list of a service that is another one than a caller has, once there is
// one. If there is none within a time, ok is false, which is an error for a caller that has
// nothing; that of such a caller is readWait.
func (s *polls) first(ctx context.Context, c serve.Caller, data conclave.DataInfoID, have seen, within time.Duration) (push registry.Push, ok bool, err error) {
	if have.version == 0 {
		within = readWait
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	p, err := s.open(limited, c, data, have)
	if err == nil {
		if ctx.Value(requestKey{}) == nil {
			defer s.end(p)
		}
		push, err = p.next(limited)
	}
	switch {
	case err == nil:
		return push, true, nil
	case restarts(&have, err):
		return s.first(ctx, c, data, have, within)
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return push, false, err
	case have.version == 0:
		return push, false, wire.Errorf(wire.CodeUnavailable, "no data node has answered for this service within %s", within)
	}
	return push, false, nil
}

// open subscribes for a caller: if ctx is that of a request, until its answer was sent or
// open is called again, and otherwise until end is called.
func (s *polls) open(ctx context.Context, c serve.Caller, data conclave.DataInfoID, have seen) (*poll, error) {
	host := c.Host()
	p := &poll{number: s.opened.Add(1), pushes: make(chan registry.Push, 1), end: make(chan struct{}), Owner: ownerOf(c, c.Name)}
	p.Parts = true
	if err := s.await(ctx, host); err != nil {
		return nil, err
	}
	if err := s.clients.addPoll(p); err != nil {
		s.pace.giveBack(host, 1)
		return nil, err
	}
	in := &wirev1.Subscription{Id: fmt.Sprint("request-", p.number), DataInfoId: data.String(), Version: have.version, Hash: have.hash, Count: have.count, Publishers: have.publishers, HoldMs: wire.Ms(readHold)}
	err := with(s.registry, func(reg *registry.Registry) error {
		if reg.Stopped() && have.version == 0 {
			return wire.Errorf(wire.CodeUnavailable, "no list is sent while the switch %s is on", wire.SwitchStopPush)
		}
		pushes, err := reg.Subscribe(p.Owner, in, time.Now())
		s.clients.push(pushes)
		return err
	})
	if err != nil {
		s.pace.giveBack(host, 1)
		s.end(p)
		return nil, err
	}
	if x, ok := ctx.Value(requestKey{}).(*request); ok {
		if x.poll != nil {
			s.end(x.poll) // a request has one
		}
		x.poll = p
	}
	s.wakeReaders()
	return p, nil
}

// await waits for the turn of a subscription from a host.
func (s *polls) await(ctx context.Context, host string) error {
	if !s.waiting.Try(host, ownerBytes) {
		return wire.Errorf(wire.CodeLimitReached, "too many subscriptions of this address wait")
	}
	defer s.waiting.Release(host, ownerBytes)
	err := sleep.For(ctx, s.pace.reserve(host, 1, time.Now()))
	if err != nil {
		s.pace.giveBack(host, 1)
	}
	return err
}

// restarts reports whether an error is that of a cursor that this cluster cannot have
// given, as one of before the cluster was created again. The client is then answered as one
// that has nothing.
func restarts(have *seen, err error) bool {
	if wire.CodeOf(err) != wire.CodeBadRequest || have.version == 0 {
		return false
	}
	*have = seen{}
	return true
}

// answered ends the subscription of a request that was answered. A stop waits for that: it
// would break off an answer that is not sent yet. A problem has its length, and needs no more.
func (s *polls) answered(r *http.Request) {
	x, ok := r.Context().Value(requestKey{}).(*request)
	if !ok || x.poll == nil {
		return
	}
	if x.poll.ended() {
		_ = x.response.Flush() // fails if the client has disconnected
	}
	s.end(x.poll)
}

func (s *polls) end(p *poll) {
	s.registry.do(func(r *registry.Registry) {
		r.Release(p.Owner)
		p.End()
	})
	s.clients.removePoll(p)
}
