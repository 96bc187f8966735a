package metaclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"conclave/internal/signal"
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
	pause := time.NewTimer(0)
	pause.Stop()
	defer pause.Stop()
	c.reporter.beginStream()
	next, inTime := c.report(ctx)
	reported, tick := time.Now(), c.Beats.Next()
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
			case <-tick:
				tick = c.Beats.Next()
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

// report is what a beat carries about the node besides that it lives.
type report struct {
	slots           []*wirev1.SlotReport
	load            uint32
	ready, draining bool
}

// reporter calls Report in a goroutine of its own. Report takes locks that
// requests with many registrations hold, and a beat must not wait for them: one
// whose report is late is sent without it, and the report follows as soon as it
// is there. The leader keeps what the node reported before.
//
// A node that makes no report for a node lease (overdue) sends no beats: a part
// of it that holds such a lock for ever serves nothing, and the node must not
// stay a member for it.
type reporter struct {
	wanted signal.Signal
	asked  atomic.Uint64      // how many reports were asked for
	made   chan orderedReport // room for one

	// The fields below belong to the sender of the present stream.
	first   uint64    // the first report that was asked for on this stream
	waiting bool      // a report has been asked for and was not received,
	since   time.Time // since this time
	silent  bool      // overdue was logged
}

// orderedReport is a report that was begun after so many had been asked for.
type orderedReport struct {
	report
	asked uint64
}

func newReporter() *reporter {
	return &reporter{wanted: signal.New(), made: make(chan orderedReport, 1)}
}

// run calls from whenever a report is wanted, until ctx ends.
func (r *reporter) run(ctx context.Context, from func() (slots []*wirev1.SlotReport, load uint32, ready, draining bool)) {
	for {
		select {
		case <-r.wanted.C():
		case <-ctx.Done():
			return
		}
		next := orderedReport{asked: r.asked.Load()}
		next.slots, next.load, next.ready, next.draining = from()
		select {
		case r.made <- next:
		case <-ctx.Done():
			return
		}
	}
}

// beginStream makes what was asked for on earlier streams too old to be sent: a
// new leader must not take what the node was long ago for what it is now.
func (r *reporter) beginStream() { r.first = r.asked.Load() + 1 }

// next asks for a report and waits for it, for limit at most. It returns false if
// that time has passed. One that was asked for before, on this stream, may come
// first; the one that is asked for now follows in made.
func (r *reporter) next(ctx context.Context, limit time.Duration) (_ report, inTime bool) {
	r.asked.Add(1)
	r.wanted.Set()
	if !r.waiting {
		r.waiting, r.since = true, time.Now()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m := <-r.made:
			if r.received(m) {
				return m.report, true
			}
		case <-timer.C:
			return report{}, false
		case <-ctx.Done():
			return report{}, false
		}
	}
}

// received records a report from made. It returns false if the report was asked
// for on an earlier stream, so that it is not to be sent.
func (r *reporter) received(m orderedReport) (fresh bool) {
	r.waiting, r.since = m.asked < r.asked.Load(), time.Now()
	return m.asked >= r.first
}

// overdue reports whether reports were asked for and none was received for a
// while.
func (r *reporter) overdue(after time.Duration) bool {
	return r.waiting && time.Since(r.since) >= after
}
