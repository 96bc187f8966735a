package metaclient

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// askLimit is how long a meta may take to say whom it follows. Once one says
// that it leads, the others have outvoteLimit left to name a higher term: a
// leader of the past may believe for a while, and a frozen meta is not waited
// for.
const (
	askLimit     = 250 * time.Millisecond
	outvoteLimit = 10 * time.Millisecond
)

// suggest notes that somebody takes l for the leader, unless a higher term is
// known already; the next try goes there.
func (c *Client) suggest(l Leader) (news bool) {
	if l.Address == "" || l.Address == c.Self.Address {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	news = l.Term >= c.hint.Term && l.Term >= c.leader.Term && l != c.leader
	if news {
		c.hint = l
	}
	return news
}

// takeHint hands out the suggested leader, once.
func (c *Client) takeHint() (Leader, bool) {
	select {
	case <-c.hints:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hint
	c.hint = Leader{}
	return l, l.Address != "" && l.Term >= c.Fence.Highest()
}

// putBack renews the token of a hint that was seen but not taken.
func (c *Client) putBack() {
	c.mu.Lock()
	still := c.hint.Address != ""
	c.mu.Unlock()
	if still {
		wake(c.hints)
	}
}

// seek finds an address to join.
//
//  1. Somebody has named a leader since the last try: take it.
//  2. Else ask all metas at once, and take the highest term of those that lead
//     themselves; without one, whom the highest term names.
//  3. Else whom the caller knows from elsewhere (Config.Guess).
func (c *Client) seek(ctx context.Context) (Leader, error) {
	if l, ok := c.takeHint(); ok {
		return l, nil
	}
	metas := c.Metas()
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()

	type answer struct {
		leader Leader
		self   bool
		err    error
	}
	answers := make(chan answer, len(metas)) // never blocks the askers; nobody closes it
	for _, address := range metas {
		asking.Go(func() {
			res, err := c.Peers.Meta(address).GetLeader(ctx, connect.NewRequest(&wirev1.GetLeaderRequest{}))
			if err != nil {
				answers <- answer{err: wire.FromConnect(err)}
				return
			}
			m := res.Msg
			l := Leader{Term: m.GetTerm(), Node: wire.NodeIn(m.GetLeader()), Address: m.GetAddress()}
			if m.GetSelf() {
				l.Address = address // the way by which it was just reached
			}
			answers <- answer{leader: l, self: m.GetSelf()}
		})
	}

	var self, named Leader // of the highest term so far
	var err error = wire.NotLeader("", "")
	enough := time.NewTimer(askLimit)
	defer enough.Stop()
ask:
	for range metas {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				err = a.err
			case a.self && a.leader.Term >= max(self.Term, c.Fence.Highest()):
				if self.Address == "" {
					enough.Reset(outvoteLimit)
				}
				self = a.leader
			case a.leader.Term >= named.Term && a.leader.Address != "" && a.leader.Address != c.Self.Address:
				named = a.leader
			}
		case <-c.hints:
			if l, ok := c.takeHint(); ok {
				return l, nil
			}
		case <-enough.C:
			break ask
		case <-ctx.Done():
			break ask
		}
	}
	switch {
	case self.Address != "":
		return self, nil
	case named.Address != "":
		return named, nil
	}
	if c.Guess != nil {
		if l, ok := c.Guess(); ok && l.Address != c.Self.Address && l.Term >= c.Fence.Highest() {
			return l, nil
		}
	}
	return Leader{}, err
}

// pause is the time between two tries: 5 ms, and twice as long each time, to 250 ms.
// Each is jittered by half, so that a cluster does not ask in step. A leader that
// appears ends a pause by announcing itself; only who cannot be told finds it by
// asking.
type pause struct {
	rand *rand.Rand
	last time.Duration
}

func newPause(r *rand.Rand) *pause { return &pause{rand: r} }

// broke begins anew after a stream that was held: with 25 ms, since a leader that
// was killed has a successor by then, who will say so. Asking all metas just
// while they elect would only keep them from it.
func (p *pause) broke() { p.last = 12 * time.Millisecond }

func (p *pause) next() time.Duration {
	p.last = min(max(2*p.last, 5*time.Millisecond), 250*time.Millisecond)
	return p.last/2 + time.Duration(p.rand.Int64N(int64(p.last)))
}
