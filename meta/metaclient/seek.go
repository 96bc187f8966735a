package metaclient

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// askTimeout is how long a meta may take to name the leader. Once one answers
// that it leads itself, the others have outvoteTimeout left to name a higher
// term: a former leader may still believe it leads, and a frozen meta must not
// delay the result.
const (
	askTimeout     = 250 * time.Millisecond
	outvoteTimeout = 10 * time.Millisecond
)

// suggest records l as a possible leader, to be tried next, unless a higher
// term is known already. It reports whether it did.
func (c *Client) suggest(l Leader) (news bool) {
	if l.Address == "" || l.Address == c.Self.Address {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	leader := c.contact.Load().leader
	news = l.Term >= c.hint.Term && l.Term >= leader.Term && l != leader
	if news {
		c.hint = l
	}
	return news
}

// takeHint returns the suggested leader, once.
func (c *Client) takeHint() (Leader, bool) {
	select {
	case <-c.hints.C():
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.hint
	c.hint = Leader{}
	return l, l.Address != "" && l.Term >= c.Fence.Highest()
}

// putBack sets the signal of a hint that was seen but not taken again.
func (c *Client) putBack() {
	c.mu.Lock()
	still := c.hint.Address != ""
	c.mu.Unlock()
	if still {
		c.hints.Set()
	}
}

// seek finds an address to join.
//
//  1. The leader that was suggested since the last try.
//  2. Otherwise it asks all metas at once, and takes the highest term of those
//     that lead themselves, or else the leader named under the highest term.
//  3. Otherwise the leader that the caller knows from elsewhere (Config.Guess).
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
	answers := make(chan answer, len(metas)) // never blocks the senders; not closed
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
				l.Address = address // it has just been reached there
			}
			answers <- answer{leader: l, self: m.GetSelf()}
		})
	}

	var self, named Leader // of the highest term so far
	var err error = wire.NotLeader("", "")
	enough := time.NewTimer(askTimeout)
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
					enough.Reset(outvoteTimeout)
				}
				self = a.leader
			case a.leader.Term >= named.Term && a.leader.Address != "" && a.leader.Address != c.Self.Address:
				named = a.leader
			}
		case <-c.hints.C():
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
