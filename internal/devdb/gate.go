package devdb

import (
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// The errors have MySQL's numbers, so that clients handle them as those of a
// MySQL server.
var (
	// errLockWait: the gate was not free within Config.LockWait; nothing was
	// executed.
	errLockWait = mysql.NewSQLError(mysql.ERLockWaitTimeout, "HY000", "Lock wait timeout exceeded; try restarting transaction")
	// errEvicted: the connection's transaction was idle while other statements
	// waited, and was rolled back.
	errEvicted = mysql.NewSQLError(mysql.ERQueryInterrupted, "70100", "Query execution was interrupted: the transaction was idle while others waited, and was rolled back")
	// errInterrupted: KILL QUERY, or the client's socket closed while its
	// statement waited.
	errInterrupted = mysql.NewSQLError(mysql.ERQueryInterrupted, "70100", "Query execution was interrupted")
	// errStopping: the server is shutting down and ends all waits.
	errStopping = mysql.NewSQLError(mysql.ERServerShutdown, "08S01", "Server shutdown in progress")
)

// gate admits one statement or one transaction at a time. It is a channel, not
// a mutex, because a goroutine that waits for a mutex stops the clock of a
// testing/synctest bubble and one that waits on a channel does not.
//
// Only the connection's own goroutine calls enter, pause and leave;
// client.inside records whether it holds the gate.
type gate struct {
	free    chan struct{} // holds one token while the gate is free
	wait    time.Duration // how long a statement waits for the token
	maxIdle time.Duration // how long a transaction may be idle while others wait

	mu      sync.Mutex // guards the fields below; not held while waiting
	waiting int        // statements in the queue
	idle    *client    // the client that holds the gate between two statements of its transaction; nil while a statement runs
	since   time.Time  // when it became idle
	evict   *time.Timer
}

func newGate(wait time.Duration) *gate {
	g := &gate{free: make(chan struct{}, 1), wait: wait, maxIdle: wait / 2}
	g.free <- struct{}{}
	return g
}

// enter waits until c may execute. A connection whose transaction holds the
// gate continues at once.
func (g *gate) enter(c *client) error {
	if c.inside {
		return g.resume(c)
	}
	select {
	case <-g.free: // free: no timer and no queue needed
		c.inside = true
		return nil
	default:
	}
	g.queue(+1)
	defer g.queue(-1)
	limit := time.NewTimer(g.wait)
	defer limit.Stop()
	select {
	case <-g.free:
		c.inside = true
		return nil
	case <-limit.C:
		return errLockWait
	case <-c.socket.closed:
		return errInterrupted
	}
}

// leave releases the gate.
func (g *gate) leave(c *client) {
	c.inside = false
	g.mu.Lock()
	g.idle = nil
	g.disarm()
	g.mu.Unlock()
	g.free <- struct{}{} // never blocks: this client held the token
}

// pause keeps the gate for c's transaction, which is idle from now on.
func (g *gate) pause(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle, g.since = c, time.Now()
	g.arm()
}

// resume ends the pause. It fails if the transaction was evicted meanwhile: its
// socket is closed and it is being rolled back, so the statement (a COMMIT, for
// instance) must not be executed.
func (g *gate) resume(c *client) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.evicted {
		return errEvicted
	}
	g.idle = nil
	g.disarm()
	return nil
}

// queue changes the number of waiting statements. The first one to wait for an
// idle transaction starts the timer of its eviction.
func (g *gate) queue(change int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += change
	if g.waiting == 0 {
		g.disarm()
	} else {
		g.arm()
	}
}

// arm and disarm are called with mu held.
func (g *gate) arm() {
	if g.idle == nil || g.waiting == 0 || g.evict != nil {
		return
	}
	idle := g.idle
	g.evict = time.AfterFunc(time.Until(g.since.Add(g.maxIdle)), func() { g.expel(idle) })
}

func (g *gate) disarm() {
	if g.evict != nil {
		g.evict.Stop()
		g.evict = nil
	}
}

// expel closes the connection of a transaction that was idle for too long. The
// connection's goroutine notices the closed socket, rolls back and leaves the
// gate, so the next statement finds only committed rows.
func (g *gate) expel(c *client) {
	g.mu.Lock()
	g.evict = nil
	overdue := g.idle == c && g.waiting > 0 && time.Since(g.since) >= g.maxIdle
	if overdue {
		c.evicted = true
	} else {
		g.arm()
	}
	g.mu.Unlock()
	if overdue {
		c.log.Warn("idle transaction ended because others waited", "connection", c.id, "idle", g.maxIdle)
		c.socket.cut()
	}
}
