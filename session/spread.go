package session

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Limits of spreading (docs/adr/0117).
const (
	spreadRound  = time.Second      // between two rounds, each of which asks a few clients to move
	spreadShare  = 100              // a round asks one client in this many, and at least one
	spreadAfter  = 5 * time.Second  // for which a session must have had too many clients
	spreadMoving = 10 * time.Second // after which a client that was asked and is still here counts as staying
	spreadCounts = 3 * time.Second  // after which the other session's count contains a client that was asked
	spreadLeast  = 20               // with fewer clients in all sessions together, none is asked
)

// spread asks clients of this session to move while it has more than its share
// of them: after another session has come back, or all were restarted in turn.
// Without it, clients stay where they found a session.
//
//	            more than share + 10 % for 5 s
//	(balanced) --------------------------------> (spreading) -- each second: 1 % move
//	     ^                                            |
//	     +---- at most the share, or a reason not to -+
//
// The numbers of the other sessions' clients come with the leader's beats. A
// client that is asked loses nothing: see Client.moveFrom in package client.
//
// A session that is cut off asks its clients to move, too: data nodes get nothing new of
// theirs, and remove the rest when the session grace has ended. It cannot know whether
// another session is better off, after a power cut for instance. So it asks one client in
// spreadShare each second, and all of them once one of these has reset its stream, as a
// client does that has moved: data has everything from the other session. The first ones
// have announced no linger, which ends with a move, if there are such clients.
type spread struct {
	node     conclave.NodeID
	beat     time.Duration
	view     *wire.View
	drain    *drain
	clients  *clients
	registry *locked
	stopping func() bool // the whole cluster stops
	log      hclog.Logger

	mu    sync.Mutex // guards the rest
	loads []*wirev1.SessionLoad
	at    time.Time // when they arrived
}

// observe takes the sessions that take clients from a message of the leader.
func (s *spread) observe(m *wirev1.JoinResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads, s.at = m.GetSessions(), time.Now()
}

// run plays a round each second until ctx ends.
func (s *spread) run(ctx context.Context) {
	// A source of its own: it takes nothing from that of the other loops.
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(s.node.String()))
	b := &balance{stays: s.clients.stays, asked: map[*connection]move{}, rand: rand.New(rand.NewPCG(seed.Sum64(), 0))}
	tick := time.NewTicker(spreadRound)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			state := s.drain.update()
			if state == evacuates {
				s.evacuate(b, now)
				continue
			}
			b.moved = false
			s.round(b, now)
		case <-ctx.Done():
			return
		}
	}
}

// round asks a few clients to move, if this session has too many.
func (s *spread) round(b *balance, now time.Time) {
	others, known := s.others(now)
	if !known {
		b.since = time.Time{}
		return
	}
	open := s.clients.snapshot()
	targets := b.plan(open, others, now)
	if len(targets) == 0 {
		return
	}
	count := 0
	for _, conn := range s.choose(b, open, len(targets)) {
		if to := targets[count]; s.clients.askOneToMove(conn, "other sessions have fewer clients", to) {
			b.asked[conn] = move{to: to, at: now}
			count++
		}
	}
	if count == 0 {
		return
	}
	s.log.Info("clients are asked to move to sessions with fewer", "asked", count, "clients", len(open))
}

// evacuate asks a few clients to move, or all once one of them has done so.
func (s *spread) evacuate(b *balance, now time.Time) {
	open, count := s.clients.snapshot(), 0
	b.plan(open, nil, now)
	addresses := s.drain.refuges(s.view.State())
	if len(addresses) == 0 {
		return // the state has changed since drain.update
	}
	linger := !slices.ContainsFunc(open, func(c *connection) bool { return !c.Announced })
	for _, i := range b.rand.Perm(len(open)) {
		conn, to := open[i], addresses[b.rand.IntN(len(addresses))]
		if _, moving := b.asked[conn]; moving || !b.moved && (conn.Announced && !linger || count >= max(1, len(open)/spreadShare)) {
			continue
		}
		if s.clients.askOneToMove(conn, cutOff, to) {
			b.asked[conn], count = move{to: to, at: now, cutOff: true}, count+1
		}
	}
}

// others returns the number of clients of each other session that takes clients,
// by address. It is not known while that is old news, while this session does
// not take clients itself, and not wanted while slots move or are protected.
func (s *spread) others(now time.Time) (others map[string]int, known bool) {
	s.mu.Lock()
	loads, at := s.loads, s.at
	s.mu.Unlock()
	state := s.view.State()
	moving := slices.ContainsFunc(state.Table.Slots, func(r slot.Slot) bool { return r.Phase != slot.Stable })
	if now.Sub(at) > 3*s.beat || moving || state.Freeze.Frozen || s.stopping() || !s.drain.isOpen() {
		return nil, false
	}
	others = map[string]int{}
	for _, l := range loads {
		if wire.NodeIn(l.GetNode()) == s.node {
			known = true
			continue
		}
		others[l.GetAddress()] = int(l.GetClients())
	}
	return others, known && len(others) > 0
}

// choose returns at most n connections at random: first those whose
// registrations data has, then others. A client that announced a linger is not
// asked, because its linger ends with a move, and neither is one that is moving.
func (s *spread) choose(b *balance, open []*connection, n int) []*connection {
	var idle, busy []*connection
	for _, i := range b.rand.Perm(len(open)) {
		conn := open[i]
		if _, moving := b.asked[conn]; moving || conn.Announced {
			continue
		}
		if with(s.registry, func(r *registry.Registry) bool { return r.HasUnstored(conn.Owner) }) {
			busy = append(busy, conn)
		} else {
			idle = append(idle, conn)
		}
		if len(idle) == n || len(idle)+len(busy) >= 4*n {
			break
		}
	}
	all := slices.Concat(idle, busy)
	return all[:min(n, len(all))]
}

// balance decides how many clients are to move, and where to. It is used by one
// goroutine.
type balance struct {
	since time.Time            // since when this session has had too many clients; zero: it has not
	asked map[*connection]move // clients that were asked less than spreadMoving ago
	moved bool                 // one of these that evacuate asked has moved; while this session is cut off
	stays func(*connection)    // is called for a client that was asked and has stayed
	rand  *rand.Rand
}

// move is one client that was asked to move.
type move struct {
	to     string // address
	at     time.Time
	cutOff bool // because this session is cut off
}

// plan returns an address for each client that is to move now. A client that was asked
// counts as being where it was asked to go, until the numbers show where it is.
func (b *balance) plan(open []*connection, others map[string]int, now time.Time) (targets []string) {
	own, have := len(open), map[string]int{}
	for address, n := range others {
		have[address] = n
	}
	here := map[*connection]bool{}
	for _, conn := range open {
		here[conn] = true
	}
	for conn, m := range b.asked {
		age := now.Sub(m.at)
		b.moved = b.moved || m.cutOff && !here[conn] && conn.moved
		if age > spreadMoving || !here[conn] && age > spreadCounts {
			delete(b.asked, conn)
			if here[conn] {
				b.stays(conn)
			}
			continue
		}
		if here[conn] {
			own--
		}
		if _, takes := have[m.to]; takes {
			have[m.to]++
		}
	}
	total := own
	for _, n := range have {
		total += n
	}
	sessions := len(have) + 1
	share := (total + sessions - 1) / sessions
	spreading := !b.since.IsZero() && now.Sub(b.since) >= spreadAfter
	switch tooMany := own > share+max(1, share/10); {
	case total < spreadLeast || own <= share || !spreading && !tooMany:
		b.since = time.Time{}
		return nil
	case b.since.IsZero():
		b.since = now
	}
	if !spreading {
		return nil
	}
	for range min(own-share, max(1, own/spreadShare)) {
		to := b.target(have, share)
		if to == "" {
			break
		}
		have[to]++
		targets = append(targets, to)
	}
	return targets
}

// target returns one of the sessions that have fewer clients than their share,
// with a probability in proportion to how many it lacks: of several sessions with
// too many, not all choose the same one. It returns "" if none has fewer.
func (b *balance) target(have map[string]int, share int) string {
	addresses, lacking := make([]string, 0, len(have)), 0
	for address, n := range have {
		if n < share {
			addresses, lacking = append(addresses, address), lacking+share-n
		}
	}
	if lacking == 0 {
		return ""
	}
	slices.Sort(addresses)
	at := b.rand.IntN(lacking)
	for _, address := range addresses {
		if at -= share - have[address]; at < 0 {
			return address
		}
	}
	return ""
}
