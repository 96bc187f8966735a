package metaclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave/lease"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// stream is one Join call on the node's side.
type stream = connect.BidiStreamForClient[wirev1.JoinRequest, wirev1.JoinResponse]

// join holds one stream to target until it breaks, falls silent, or another
// leader announces itself. contact reports whether a leader sent a message on
// it; err is why it ended.
//
// Three goroutines: one sends, one receives, and this one watches the time. The
// sender is separate because a frozen peer blocks it in the middle of a
// message.
func (c *Client) join(ctx context.Context, target Leader) (contact bool, err error) {
	run := ctx
	ctx, cancel := context.WithCancelCause(run)
	s := c.Peers.Meta(target.Address).Join(ctx)
	contacts := make(chan Leader, 1) // the last one received; the watcher takes it
	var both sync.WaitGroup
	both.Go(func() { cancel(c.runSend(ctx, s)) })
	both.Go(func() { cancel(c.runReceive(s, target.Address, contacts)) })
	defer func() {
		cancel(nil)
		both.Wait()
		select {
		case <-contacts: // the receiver's last message
			contact = true
		default:
		}
		if contact {
			l := c.clearLeader()
			if run.Err() == nil {
				c.Logger.Warn("lost the leader", "leader", l.Node.Name, "term", l.Term, "error", err)
			}
			if c.Broke != nil {
				c.Broke(l, err)
			}
		}
	}()

	current := target
	silence := lease.NewSilence(time.Now(), c.Beat, c.Beat/2)
	round := time.NewTimer(silence.First())
	defer round.Stop()
	for {
		select {
		case current = <-contacts:
			contact = true
			silence.Received(time.Now(), 2*c.Beat+c.Beat/4)
		case <-round.C:
			next, over := silence.Round(time.Now())
			if over {
				return contact, errSilent
			}
			round.Reset(next)
		case <-c.hints.C():
			if c.supersedes(current) {
				c.putBack()
				return contact, errSuperseded
			}
		case <-ctx.Done():
			return contact, c.readRefusal(context.Cause(ctx))
		}
	}
}

// supersedes reports whether the hint names a newer leader than the one of this
// stream. A hint that does not is dropped.
func (c *Client) supersedes(current Leader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newer := c.hint.Term > current.Term || c.hint.Term == current.Term && c.hint.Address != current.Address
	if !newer {
		c.hint = Leader{}
	}
	return newer
}

// readRefusal decodes a refusal and suggests the leader that it names. Unlike
// an announcement it does not cut short the pause before the next try:
// otherwise two metas that name each other would be asked in turns without end.
func (c *Client) readRefusal(err error) error {
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

// runSend sends the first beat at once, then one each Beat, at each Poke, and when
// a report is there that an earlier beat did not wait for (renewNode in the
// articles). While no report has been made for a node lease, it sends none, so that
// the lease ends.
func (c *Client) runSend(ctx context.Context, s *stream) error {
	// Once a stream has been answered, net/http notices the end of its context
	// only when the request's body ends: without this Receive would block
	// forever.
	defer func() { _ = s.CloseRequest() }()
	// Each stream ticks at an offset of its own.
	ticker := time.NewTimer(c.Beat/2 + time.Duration(c.Rand.Int64N(int64(c.Beat/2))))
	defer ticker.Stop()
	pause := time.NewTimer(0)
	pause.Stop()
	defer pause.Stop()
	c.reporter.beginStream()
	next, inTime := c.report(ctx)
	reported := time.Now()
	for beat := uint64(1); ; {
		if c.mayBeat() {
			if err := s.Send(c.beat(beat, next, inTime)); err != nil {
				// The stream has ended; the receiver gets the reason.
				<-ctx.Done()
				return context.Cause(ctx)
			}
			beat++
		}
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-c.pokes.C():
				pause.Reset(time.Until(reported.Add(reportPause)))
				continue
			case <-pause.C:
				next, inTime = c.report(ctx)
				reported = time.Now()
			case <-c.tables.C():
				next, inTime = report{}, false
			case <-ticker.C:
				ticker.Reset(c.Beat)
				next, inTime = c.report(ctx)
			case made := <-c.reporter.made:
				next, inTime = made.report, c.reporter.received(made)
			}
			due = true
		}
	}
}

// reportPause is the shortest time between two reports because of a Poke. The
// copies of a node become complete one after the other, each with a Poke, and a
// report has all slots.
const reportPause = 5 * time.Millisecond

// reportLimit is the share of a beat that a beat waits for its report.
const reportLimit = 8

// report returns what the next beat reports, and false if it reports nothing.
func (c *Client) report(ctx context.Context) (report, bool) {
	if c.Report == nil {
		return report{ready: true}, true
	}
	return c.reporter.next(ctx, c.Beat/reportLimit)
}

// mayBeat reports whether this node is to stay a member: it makes reports, or
// has not been without one for a node lease.
func (c *Client) mayBeat() bool {
	overdue := c.reporter.overdue(c.NodeLease())
	if overdue && !c.reporter.silent {
		c.Logger.Error("no report was made for a node lease: this node sends no beats until one is", "since", c.reporter.since)
	}
	c.reporter.silent = overdue
	return !overdue
}

// beat returns one message to the leader, with the report if there is one.
func (c *Client) beat(n uint64, r report, reports bool) *wirev1.JoinRequest {
	out := &wirev1.JoinRequest{Have: c.View.Epochs(), HighestTerm: c.Fence.Highest(), Beat: n, DataCenter: c.DataCenter}
	self := c.Self
	self.Draining, self.Dialable = false, false
	if reports {
		out.AllReports, out.Reports, out.Ready, out.Load = true, r.slots, r.ready, r.load
		self.Draining = r.draining
		if c.Unheard != nil {
			out.Unheard = c.Unheard()
		}
	}
	out.Member = wire.MemberOut(self)
	return out
}

// runReceive processes the leader's messages until the stream ends.
func (c *Client) runReceive(s *stream, address string, contacts chan Leader) error {
	for {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		// A former leader may still send: refuse it. The next beat carries the
		// highest term, so that the actual leader can get a term above it.
		if err := c.Fence.Admit(m.GetTerm()); err != nil {
			return err
		}
		_, err = c.View.Apply(m.GetState())
		switch table := m.GetState().GetTable(); {
		case errors.Is(err, wire.ErrBehind):
			// A peer has sent a newer table than this stream.
			c.Behind(address, wire.EpochIn(table.GetEpoch()))
		case table != nil:
			c.tables.Set() // the leader measures for how long two tables coexist
		}
		l := Leader{Term: m.GetTerm(), Node: wire.NodeIn(m.GetLeader()), Address: address}
		if c.update(l, m) {
			c.Logger.Info("follow the leader", "leader", l.Node.Name, "address", address, "term", l.Term)
		}
		if c.OnMessage != nil {
			c.OnMessage(m)
		}
		select { // the watcher needs only the last one
		case <-contacts:
		default:
		}
		contacts <- l
	}
}
