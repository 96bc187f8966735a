package simnet

import (
	"slices"
	"time"
)

// Budget is what the one processor of a host can do. A processor serves the
// segments of all its connections one after the other, in the order of their
// arrival, and a reader receives a segment when it has been served. The zero
// value means that computing takes no time.
type Budget struct {
	// Message is the time that one write of a sender takes, and Byte the time
	// that each of its bytes takes. What the host itself sends takes the same
	// time: it leaves at once, and what has arrived waits for it.
	Message, Byte time.Duration
	// Queue is how many bytes may wait to be served; 0 means any number. What
	// does not fit is dropped and sent again after 200, 400, 800 ms. A segment
	// is never dropped while nothing waits.
	Queue int
}

func (b Budget) cost(writes, bytes int) time.Duration {
	return time.Duration(writes)*b.Message + time.Duration(bytes)*b.Byte
}

// Usage is what a host's processor had to do in some time.
type Usage struct {
	Offered time.Duration // what arrived and what was sent takes this long to serve
	Waited  time.Duration // the longest time from the arrival of a segment until it was served
	Queued  int           // the most bytes that waited
	Dropped int           // segments that did not fit into the queue
}

// processor serves what arrives at a host that has a budget. It has one timer,
// whatever the number of connections. Net.mu guards it.
type processor struct {
	net    *Net
	host   *host
	budget Budget
	queue  []job // in the order of their arrival; the first one is being served if serving is set
	bytes  int   // of the jobs in queue

	serving bool
	due     time.Time // when the first job is served, if serving is set
	free    time.Time // when everything that was begun, and everything that was sent, is done
	timer   *time.Timer
	usage   Usage // since it was last read
}

// job is a segment that has arrived and was not served yet.
type job struct {
	pipe    *pipe // nil: its reader has gone
	segment segment
	arrived time.Time
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
	if len(c.queue) > 0 {
		u.Waited = max(u.Waited, time.Since(c.queue[0].arrived))
	}
	c.usage = Usage{Queued: c.bytes}
	return u
}

// admits reports whether a segment may wait here. Net.mu is held.
func (c *processor) admits(s segment) bool {
	if c == nil || c.budget.Queue == 0 || len(c.queue) == 0 || c.bytes+len(s.data) <= c.budget.Queue {
		return true
	}
	c.usage.Dropped++
	return false
}

// add queues a segment that has arrived. Net.mu is held.
func (c *processor) add(p *pipe, s segment) {
	c.queue = append(c.queue, job{p, s, time.Now()})
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

// next begins to serve the first job, if the processor is free. Net.mu is held.
func (c *processor) next() {
	if c == nil || c.serving || len(c.queue) == 0 || c.host.frozen {
		return
	}
	now, first := time.Now(), c.queue[0].segment
	c.serving = true
	c.free = latest(c.free, now).Add(c.budget.cost(first.writes, len(first.data)))
	c.due = c.free
	if wait := c.due.Sub(now); c.timer == nil {
		c.timer = time.AfterFunc(wait, c.served)
	} else {
		c.timer.Reset(wait)
	}
}

// served delivers the first job and begins the next one.
func (c *processor) served() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if !c.serving || time.Now().Before(c.due) { // the process was killed at this instant
		return
	}
	c.serving = false
	first := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.bytes -= len(first.segment.data)
	c.usage.Waited = max(c.usage.Waited, time.Since(first.arrived))
	if first.pipe != nil {
		first.pipe.deliver(first.segment)
	}
	c.next()
}

// forget removes what waits for the reader of a pipe. What is being served is
// served to its end. Net.mu is held.
func (c *processor) forget(p *pipe) {
	if c == nil {
		return
	}
	if c.serving && c.queue[0].pipe == p {
		c.queue[0].pipe = nil
	}
	c.queue = slices.DeleteFunc(c.queue, func(j job) bool {
		if j.pipe == p {
			c.bytes -= len(j.segment.data)
		}
		return j.pipe == p
	})
}

// reset ends what a killed process was doing. Net.mu is held.
func (c *processor) reset() {
	if c == nil {
		return
	}
	c.queue, c.bytes, c.serving, c.free = nil, 0, false, time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
