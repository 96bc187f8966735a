package metaclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// stream is one Join call, as this side sees it.
type stream = connect.BidiStreamForClient[wirev1.JoinRequest, wirev1.JoinResponse]

// join holds one stream to whom target names, until it breaks, falls silent,
// or another leader makes itself known. spoke says that a leader was heard on
// it; err says why it ended.
//
// Three goroutines: one sends, one receives, and this one watches the time. The
// sender is apart because a frozen peer stops it in the middle of a message.
func (c *Client) join(ctx context.Context, target Leader) (spoke bool, err error) {
	run := ctx
	ctx, cancel := context.WithCancelCause(run)
	s := c.Peers.Meta(target.Address).Join(ctx)
	heard := make(chan Leader, 1) // the receiver's newest; the watcher takes it
	var both sync.WaitGroup
	both.Go(func() { cancel(c.runSend(ctx, s)) })
	both.Go(func() { cancel(c.runReceive(s, target.Address, heard)) })
	defer func() {
		cancel(nil)
		both.Wait()
		select {
		case <-heard: // just before the end
			spoke = true
		default:
		}
		if spoke {
			l := c.lost()
			if run.Err() == nil {
				c.Logger.Warn("lost the leader", "leader", l.Node.Name, "term", l.Term, "error", err)
			}
			if c.Broke != nil {
				c.Broke(l, err)
			}
		}
	}()

	current := target
	silence := time.NewTimer(c.Beat) // for the first word; then two beats and a quarter
	defer silence.Stop()
	for {
		select {
		case current = <-heard:
			spoke = true
			silence.Reset(2*c.Beat + c.Beat/4)
		case <-silence.C:
			return spoke, errSilent
		case <-c.hints:
			if c.supersedes(current) {
				c.putBack()
				return spoke, errSuperseded
			}
		case <-ctx.Done():
			return spoke, c.follow(context.Cause(ctx))
		}
	}
}

// supersedes says that the hint names a newer leader than the one of this
// stream; a hint that does not is dropped.
func (c *Client) supersedes(current Leader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newer := c.hint.Term > current.Term || c.hint.Term == current.Term && c.hint.Address != current.Address
	if !newer {
		c.hint = Leader{}
	}
	return newer
}

// follow reads a refusal: it may name the leader, to whom the next try goes.
// Unlike an announcement it does not cut the pause before that try short: two
// metas that name each other would be asked in a circle without end.
func (c *Client) follow(err error) error {
	answered := connect.IsWireError(err)
	err = wire.FromConnect(err)
	var refusal *wire.Error
	switch {
	case !errors.As(err, &refusal) || !answered:
	case refusal.Code == wire.CodeNotLeader:
		c.suggest(Leader{Term: c.Fence.Highest(), Address: refusal.Address})
	case refusal.Code != wire.CodeNoLeader:
		c.refused(err)
	}
	return err
}

// runSend sends the first beat at once, then one each Beat and at each Poke.
func (c *Client) runSend(ctx context.Context, s *stream) error {
	// Once a stream has been answered, net/http notices its context's end only
	// when the request's body ends: without this Receive would block for ever.
	defer func() { _ = s.CloseRequest() }()
	// Each stream ticks at an offset of its own.
	ticker := time.NewTimer(c.Beat/2 + time.Duration(c.Rand.Int64N(int64(c.Beat/2))))
	defer ticker.Stop()
	for beat := uint64(1); ; beat++ {
		if err := s.Send(c.beat(beat)); err != nil {
			// The stream is over: its reason comes to the receiver.
			<-ctx.Done()
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.pokes:
		case <-ticker.C:
			ticker.Reset(c.Beat)
		}
	}
}

// beat is one message up.
func (c *Client) beat(n uint64) *wirev1.JoinRequest {
	out := &wirev1.JoinRequest{
		Have: c.View.Epochs(), HighestTerm: c.Fence.Highest(), Ready: true, AllReports: true, Beat: n, DataCenter: c.DataCenter,
	}
	self := c.Self
	self.Draining, self.Dialable = false, false
	if c.Report != nil {
		out.Reports, out.Load, out.Ready, self.Draining = c.Report()
	}
	out.Member = wire.MemberOut(self)
	return out
}

// runReceive takes what the leader says until the stream ends.
func (c *Client) runReceive(s *stream, address string, heard chan Leader) error {
	for {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		// A leader of the past may still talk: refuse it, and say so in the next
		// beat's highest term, so that one that really leads can jump above it.
		if err := c.Fence.Admit(m.GetTerm()); err != nil {
			return err
		}
		_, err = c.View.Apply(m.GetState())
		switch table := m.GetState().GetTable(); {
		case errors.Is(err, wire.ErrBehind):
			// A peer handed us a newer table than the stream's last one.
			c.Behind(address, wire.EpochIn(table.GetEpoch()))
		case table != nil:
			c.Poke() // the leader shows for how long two tables coexist
		}
		l := Leader{Term: m.GetTerm(), Node: wire.NodeIn(m.GetLeader()), Address: address}
		if c.note(l, m) {
			c.Logger.Info("follow the leader", "leader", l.Node.Name, "address", address, "term", l.Term)
		}
		if c.Heard != nil {
			c.Heard(m)
		}
		select { // the watcher wants only the newest
		case <-heard:
		default:
		}
		heard <- l
	}
}
