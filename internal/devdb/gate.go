package devdb

import (
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// The errors below carry MySQL's own numbers, so that a client cannot tell this server from the real one by how it fails.
var (
	// errLockWait: the gate did not open within Config.LockWait; nothing was executed.
	errLockWait = mysql.NewSQLError(mysql.ERLockWaitTimeout, "HY000", "Lock wait timeout exceeded; try restarting transaction")
	// errEvicted: this connection sat in an open transaction while others waited, and lost it.
	errEvicted = mysql.NewSQLError(mysql.ERQueryInterrupted, "70100", "Query execution was interrupted: the transaction stood idle while others waited, and was rolled back")
	// errInterrupted: KILL QUERY, or the client's socket closed while its statement waited.
	errInterrupted = mysql.NewSQLError(mysql.ERQueryInterrupted, "70100", "Query execution was interrupted")
	// errStopping: the server is shutting down and ends the waits.
	errStopping = mysql.NewSQLError(mysql.ERServerShutdown, "08S01", "Server shutdown in progress")
)

// gate lets one statement, or one transaction, through at a time. It is a channel and not a mutex: who waits for a
// mutex keeps the clock of a testing/synctest bubble from moving, who waits for a channel does not.
//
// Only the connection's own goroutine enters, pauses and leaves; client.inside is its memory of that.
type gate struct {
	free     chan struct{} // holds one token while nobody is inside
	wait     time.Duration // how long a statement waits for the token
	patience time.Duration // how long a transaction may stand idle inside while others wait

	mu      sync.Mutex // guards the fields below; never held while waiting
	waiting int        // statements in the queue
	idle    *client    // who is inside, between two statements of its transaction; nil while a statement runs
	since   time.Time  // since when it is idle
	evict   *time.Timer
}

func newGate(wait time.Duration) *gate {
	g := &gate{free: make(chan struct{}, 1), wait: wait, patience: wait / 2}
	g.free <- struct{}{}
	return g
}

// enter waits until c may execute. A connection whose transaction is inside goes on at once.
func (g *gate) enter(c *client) error {
	if c.inside {
		return g.resume(c)
	}
	select {
	case <-g.free: // nobody there: no timer, no queue
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

// leave lets the next one in.
func (g *gate) leave(c *client) {
	c.inside = false
	g.mu.Lock()
	g.idle = nil
	g.disarm()
	g.mu.Unlock()
	g.free <- struct{}{} // never blocks: the token was ours
}

// pause keeps the gate for c's transaction, and starts to count how long it makes others wait.
func (g *gate) pause(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle, g.since = c, time.Now()
	g.arm()
}

// resume ends the pause. It fails when the transaction was evicted meanwhile: the socket is closed already and its
// rollback is under way, so the statement (a COMMIT, say) must not be executed.
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

// queue counts who waits; the first one to wait behind an idle transaction starts its eviction.
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
	who := g.idle
	g.evict = time.AfterFunc(time.Until(g.since.Add(g.patience)), func() { g.expel(who) })
}

func (g *gate) disarm() {
	if g.evict != nil {
		g.evict.Stop()
		g.evict = nil
	}
}

// expel closes the connection of a transaction that stood idle for too long. Its own goroutine sees the closed socket,
// rolls back and leaves, so the next one in finds the tables as they were committed.
func (g *gate) expel(c *client) {
	g.mu.Lock()
	g.evict = nil
	overdue := g.idle == c && g.waiting > 0 && time.Since(g.since) >= g.patience
	if overdue {
		c.evicted = true
	} else {
		g.arm()
	}
	g.mu.Unlock()
	if overdue {
		c.log.Warn("idle transaction ended: others waited", "connection", c.id, "idle", g.patience)
		c.socket.cut()
	}
}
