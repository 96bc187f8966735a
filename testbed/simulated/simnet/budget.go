package simnet

import (
	"slices"
	"time"
)

// Budget is what the one processor of a host can do. Its connections take turns:
// the processor serves what has arrived on a connection for about turnTime, then
// on the next one, and a reader receives bytes when they have been served. What a
// host has to do for one connection thus delays another one by a turn of each busy
// connection, as between goroutines that share a processor, not by all that waits.
// The zero value means that computing takes no time.
type Budget struct {
	// Message is the time that one write of a sender takes, and Byte the time
	// that each of its bytes takes. What the host itself sends takes the same
	// time: it leaves at once, and what has arrived waits for it.
	Message, Byte time.Duration
	// Queue is how many bytes may wait to be served; 0 means any number. What
	// does not fit waits at its sender, unless nothing of its connection waits
	// here.
	Queue int
}

// A turn ends when turnTime has passed, as Go preempts a goroutine, and something
// else waits. At most pieceBytes of a write are served before that is seen: the
// size of a buffered write of HTTP/2.
const (
	turnTime   = 10 * time.Millisecond
	pieceBytes = 4 << 10
)

func (b Budget) cost(writes, bytes int) time.Duration {
	return time.Duration(writes)*b.Message + time.Duration(bytes)*b.Byte
}

// Usage is what a host's processor had to do in some time.
type Usage struct {
	Offered time.Duration // what arrived and what was sent takes this long to serve
	Waited  time.Duration // the longest time from the arrival of a byte until it was served
	Queued  int           // the most bytes that waited
	Blocked int           // segments that waited at their senders until others were served
}

// processor serves what arrives at a host that has a budget. It has one timer,
// whatever the number of connections. Net.mu guards it.
type processor struct {
	net     *Net
	host    *host
	budget  Budget
	turns   []*pipe // those of which something waits, in the order of their turns
	bytes   int     // that wait, or are being served
	stalled []*pipe // those whose next segment waits at its sender

	serving bool
	piece   job       // what is being served, if serving is set
	began   time.Time // when the turn has begun
	of      *pipe     // its connection; nil: nothing is being served, or the reader has gone
	due     time.Time // when the piece is served, if serving is set
	free    time.Time // when everything that was begun, and everything that was sent, is done
	timer   *time.Timer
	usage   Usage // since it was last read
}

// job is a segment that has arrived and was not served yet, or a piece of it.
type job struct {
	segment
	arrived time.Time
}

// cut removes the piece from the job that is served next, and reports whether that is all of it. The first piece has the job's writes, the last one
// its mark.
func (j *job) cut() (piece job, all bool) {
	piece = *j
	if len(j.data) <= pieceBytes {
		return piece, true
	}
	piece.data, piece.what = j.data[:pieceBytes:pieceBytes], nothing
	j.data, j.writes = j.data[pieceBytes:], 0
	return piece, false
}

// Budget gives a host's processor a budget. It is called before the host is
// used; a host without one computes in no time.
func (n *Net) Budget(name string, b Budget) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hostOf(name)
	switch {
	case h.cpu != nil:
		h.cpu.budget = b
	case b != Budget{}:
		h.cpu = &processor{net: n, host: h, budget: b}
	}
}

// Usage returns what a host's processor had to do since the last call. It is
// zero for a host without a budget.
func (n *Net) Usage(name string) Usage {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.hostOf(name).cpu
	if c == nil {
		return Usage{}
	}
	u := c.usage
	for _, p := range c.turns {
		u.Waited = max(u.Waited, time.Since(p.waiting[0].arrived))
	}
	c.usage = Usage{Queued: c.bytes}
	return u
}

// stalls reports whether the next segment of a pipe has to wait at its sender. If
// so its arrival goes on when there is room. Net.mu is held.
func (c *processor) stalls(p *pipe) bool {
	next := p.inFlight[0]
	switch {
	case c == nil || c.budget.Queue == 0 || p.closed != nil || next.what == rst:
		return false
	case len(p.waiting) == 0 && c.of != p, c.bytes+len(next.data) <= c.budget.Queue:
		return false
	}
	c.usage.Blocked++
	c.stalled = append(c.stalled, p)
	return true
}

// resume lets what waits at its sender arrive, as far as there is room. Net.mu is
// held.
func (c *processor) resume() {
	stalled := c.stalled
	c.stalled = nil
	for _, p := range stalled {
		p.arrive()
	}
}

// add queues a segment that has arrived. Net.mu is held.
func (c *processor) add(p *pipe, s segment) {
	if len(p.waiting) == 0 && c.of != p {
		c.turns = append(c.turns, p)
	}
	p.waiting = append(p.waiting, job{s, time.Now()})
	c.bytes += len(s.data)
	c.usage.Queued = max(c.usage.Queued, c.bytes)
	c.usage.Offered += c.budget.cost(s.writes, len(s.data))
	c.next()
}

// sent accounts for what the host has sent. Net.mu is held.
func (c *processor) sent(writes, bytes int) {
	if c == nil || bytes == 0 {
		return
	}
	cost := c.budget.cost(writes, bytes)
	c.usage.Offered += cost
	c.free = latest(c.free, time.Now()).Add(cost)
}

// next begins to serve the connection whose turn it is, if the processor is free.
// Net.mu is held.
func (c *processor) next() {
	if c == nil || c.serving || len(c.turns) == 0 || c.host.frozen {
		return
	}
	p := c.turns[0]
	c.turns = slices.Delete(c.turns, 0, 1)
	c.began = time.Now()
	c.serve(p)
}

// serve begins to serve the next piece of a connection. Net.mu is held.
func (c *processor) serve(p *pipe) {
	piece, all := p.waiting[0].cut()
	if all {
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
	now := time.Now()
	c.serving, c.of, c.piece = true, p, piece
	c.free = latest(c.free, now).Add(c.budget.cost(piece.writes, len(piece.data)))
	c.due = c.free
	if wait := c.due.Sub(now); c.timer == nil {
		c.timer = time.AfterFunc(wait, c.served)
	} else {
		c.timer.Reset(wait)
	}
}

// served delivers what was served. The turn goes on, or the next connection has
// its turn.
func (c *processor) served() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if !c.serving || time.Now().Before(c.due) { // the process was killed at this instant
		return
	}
	piece, p := c.piece, c.of
	c.serving, c.of, c.piece = false, nil, job{}
	c.bytes -= len(piece.data)
	c.usage.Waited = max(c.usage.Waited, time.Since(piece.arrived))
	if p != nil {
		p.deliver(piece.segment)
	}
	switch {
	case p == nil || len(p.waiting) == 0:
		c.next()
	case time.Since(c.began) < turnTime && !c.host.frozen:
		c.serve(p)
	default:
		c.turns = append(c.turns, p)
		c.next()
	}
	c.resume()
}

// forget removes what waits for the reader of a pipe. What is being served is
// served to its end. Net.mu is held.
func (c *processor) forget(p *pipe) {
	if c == nil {
		return
	}
	if c.of == p {
		c.of = nil
		c.net.fate(c.piece.number, false)
	}
	for _, j := range p.waiting {
		c.bytes -= len(j.data)
		c.net.fate(j.number, false)
	}
	p.waiting = nil
	c.turns = slices.DeleteFunc(c.turns, func(other *pipe) bool { return other == p })
	c.resume()
}

// reset ends what a killed process was doing. Its connections have been closed.
// Net.mu is held.
func (c *processor) reset() {
	if c == nil {
		return
	}
	c.bytes, c.serving, c.of, c.piece, c.free = 0, false, nil, job{}, time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.resume()
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
