package zklatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/random"
	"conclave/internal/sleep"
)

// ErrSuspended is the cause that ends a holder's context when the connection breaks, or
// when the session may have ended by the holder's own clock: the hold may be lost
// (CancelLeadershipException in article 004).
var ErrSuspended = errors.New("connection suspended: the hold may be lost")

// ClientConfig configures a Client. All fields are optional.
type ClientConfig struct {
	// Retry decides whether an acquisition starts again after its place in the queue is
	// lost. By default it does until the caller's context ends. A Latch does until it is
	// closed, whatever the policy.
	Retry  RetryPolicy
	Rand   *rand.Rand   // for ids; nil draws a seed from the system
	Logger *slog.Logger // nil discards the log lines
}

// Client makes recipes (locks, latches, selectors) on one Tree, and deletes the nodes
// that they leave behind.
type Client struct {
	tree   Tree
	log    *slog.Logger
	policy RetryPolicy
	ctx    context.Context // ends with Close; used by background work
	stop   context.CancelFunc
	woken  atomic.Uint64

	mu     sync.Mutex // guards the fields below
	rand   *rand.Rand
	closed bool
	group  sync.WaitGroup // background goroutines; Close joins them
}

// NewClient returns a Client on tree, which it does not close.
func NewClient(tree Tree, cfg ClientConfig) *Client {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Rand == nil {
		cfg.Rand = random.New()
	}
	c := &Client{tree: tree, log: cfg.Logger, policy: cfg.Retry, rand: cfg.Rand}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close stops the deletions that are still pending (the nodes end with the session),
// and joins the Client's goroutines. Close or release the recipes before.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.group.Wait()
}

// Woken returns how often a watch has woken a waiter of this Client.
func (c *Client) Woken() uint64 { return c.woken.Load() }

// background runs work in a goroutine that Close joins. After Close it does nothing.
func (c *Client) background(work func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.group.Go(work)
	}
}

// id returns 32 random hex digits.
func (c *Client) id() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	const digits = "0123456789abcdef"
	var b [32]byte
	for i := range b {
		b[i] = digits[c.rand.IntN(16)]
	}
	return string(b[:])
}

// repeat repeats a deletion in the background until it succeeds, until there is no such
// node, or until Close: a lost answer must not leave a node that blocks all others until
// the session ends.
func (c *Client) repeat(what string, deletion func() error) {
	c.background(func() {
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			err := deletion()
			if err == nil || errors.Is(err, ErrNoNode) || errors.Is(err, ErrClosed) || c.ctx.Err() != nil {
				return
			}
			c.log.Debug("will try again", "to", what, "error", err)
			_ = sleep.For(c.ctx, pause)
		}
	})
}

// discard deletes in the background the node that may exist in a queue with this id in
// its name.
func (c *Client) discard(dir, id string) {
	c.repeat("delete "+id+" in "+dir, func() error {
		names, err := c.tree.Children(c.ctx, dir)
		for _, name := range names {
			if err == nil && strings.Contains(name, id) {
				err = c.tree.Delete(c.ctx, dir+"/"+name, AnyVersion)
			}
			if errors.Is(err, ErrNoNode) {
				err = nil
			}
		}
		return err
	})
}

// trustedUntil returns until when a node of the session may be relied on: a tenth of the
// timeout earlier than the servers could end it.
func (c *Client) trustedUntil(s Session) time.Time { return s.Until().Add(-s.Timeout / 10) }

// reliable reports whether s is the session with this id, is connected, and was
// confirmed recently enough.
func (c *Client) reliable(s Session, id int64) bool {
	return s.ID == id && s.Connected() && time.Now().Before(c.trustedUntil(s))
}

// holding returns a context for the holder of a node of session id. It ends with
// ErrSuspended as soon as the hold is not reliable, which is before the servers can have
// given it to another client. cancel ends it earlier, and joins its goroutine.
func (c *Client) holding(parent context.Context, id int64) (ctx context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(parent)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			s, changed := c.tree.Session()
			if !c.reliable(s, id) {
				end(ErrSuspended)
				return
			}
			timer := time.NewTimer(time.Until(c.trustedUntil(s)))
			select {
			case <-timer.C: // check for a newer confirmation
			case <-changed:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
		}
	})
	return ctx, func() {
		end(context.Canceled)
		group.Wait()
	}
}
