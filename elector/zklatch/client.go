package zklatch

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// ErrSuspended ends the context of who holds something while the connection is gone,
// or when the session could be over by our own clock: the hold may be lost.
var ErrSuspended = errors.New("connection suspended: the hold may be lost")

// ClientConfig is what a Client may be told.
type ClientConfig struct {
	// Margin is how much earlier than the servers could end the session a holder stops
	// to believe in what it holds. Default a tenth of the session's timeout.
	Margin time.Duration
	Rand   *rand.Rand   // the stream of ids; nil draws a seed from the system
	Logger hclog.Logger // nil drops everything
}

// Client makes recipes on one Tree, and deletes what they leave behind.
type Client struct {
	tree   Tree
	log    hclog.Logger
	margin time.Duration
	ctx    context.Context // ends with Close: the background's work
	stop   context.CancelFunc
	woken  atomic.Uint64

	mu     sync.Mutex // guards what follows
	rand   *rand.Rand
	closed bool
	group  sync.WaitGroup // the background's goroutines; Close joins them
}

// NewClient makes a Client on tree, which it does not close.
func NewClient(tree Tree, cfg ClientConfig) *Client {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		cfg.Rand = rand.New(rand.NewChaCha8(seed))
	}
	c := &Client{tree: tree, log: cfg.Logger, margin: cfg.Margin, rand: cfg.Rand}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close gives up what is still to be deleted (the session's end does it), and joins
// all that the Client started. Recipes are closed, or released, before.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.group.Wait()
}

// Woken is how often a watch has woken somebody who stood in a line of this Client.
func (c *Client) Woken() uint64 { return c.woken.Load() }

// background runs work that ends with Close, or not at all when that has been.
func (c *Client) background(work func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.group.Go(work)
	}
}

// id is 32 hex digits that nobody else draws.
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

// makeParents makes a persistent path, and all that leads there.
func (c *Client) makeParents(ctx context.Context, path string) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		_, err := c.tree.Create(ctx, path[:at], nil, Persistent)
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return err
		}
	}
	return nil
}

// discard deletes a node in the background, until it is gone: a lost answer must not
// leave a node behind that bars everybody for as long as the session lives.
func (c *Client) discard(path string) {
	c.background(func() {
		c.insist("delete "+path, func() error { return c.tree.Delete(c.ctx, path, AnyVersion) })
	})
}

// discardByID does so with whatever carries the id, when it is not known whether
// anything does.
func (c *Client) discardByID(dir, id string) {
	c.background(func() {
		c.insist("delete "+id+" in "+dir, func() error {
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
	})
}

// insist repeats an act until it has succeeded, or there is nothing to act upon, or
// Close.
func (c *Client) insist(what string, act func() error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := act()
		if err == nil || errors.Is(err, ErrNoNode) || errors.Is(err, ErrClosed) || c.ctx.Err() != nil {
			return
		}
		c.log.Debug("will try again", "to", what, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
		}
	}
}

// trusted is the moment from which on what was made in the session is not relied on.
func (c *Client) trusted(s Session) time.Time {
	margin := c.margin
	if margin == 0 {
		margin = s.Timeout / 10
	}
	return s.Until().Add(-margin)
}

// sure says whether the session is the one given, connected, and heard of lately.
func (c *Client) sure(s Session, id int64) bool {
	return s.ID == id && s.Connected() && time.Now().Before(c.trusted(s))
}

// holding is a context for who holds something of session id: it ends with
// ErrSuspended as soon as that cannot be relied on, which is before the servers can
// have given it to another. cancel ends it earlier, and waits for its goroutine.
func (c *Client) holding(parent context.Context, id int64) (ctx context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(parent)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			s, changed := c.tree.Session()
			if !c.sure(s, id) {
				end(ErrSuspended)
				return
			}
			timer := time.NewTimer(time.Until(c.trusted(s)))
			select {
			case <-timer.C: // is there a younger proof of life?
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
