package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Pauses between attempts to reach a session.
const (
	firstPause = 20 * time.Millisecond
	mostPause  = 2 * time.Second
)

// runLinks keeps the client on a session: the loop that the articles call the
// client's worker. It is always in one of three places:
//
//	     +---- lost: try another, the first at once, then 20 ms .. 2 s ----+
//	     v                                                                 |
//	(seeking) -- welcomed: everything is told anew --> (held) -------------+
//	                                                    |  ^
//	                             asked to move, and     |  | all is stored
//	                             another welcomed us    v  | there: leave
//	                                                 (moving)  the old one
//
// The original's worker looks every half second, and waits up to five seconds
// between attempts. Here the end of the stream is the event.
func (c *Client) runLinks(ctx context.Context) error {
	var held *link
	avoid := "" // the session that was lost or left last: tried last
	pause := time.Duration(0)
	for {
		if held == nil {
			l, err := c.seek(ctx, avoid)
			switch {
			case c.isClosing():
				if l != nil {
					c.goodbye(l)
				}
				return nil
			case ctx.Err() != nil:
				c.drop(l)
				return ctx.Err()
			case err != nil:
				pause = min(max(2*pause, firstPause), mostPause)
				c.log.Debug("no session yet", "error", err, "pause", pause)
				c.sleep(ctx, c.spread(pause))
				continue
			}
			held, pause = l, 0
			c.log.Info("connected", "session", l.session.String(), "address", l.address)
		}
		select {
		case <-held.done:
			c.log.Warn("lost the session", "session", held.session.Name, "error", held.err)
			avoid, held = held.address, nil
		case reason := <-held.move:
			old := held
			held = c.moveFrom(ctx, old, reason)
			avoid = old.address
		case <-c.closing:
			c.goodbye(held)
			return nil
		case <-ctx.Done():
			c.drop(held)
			return ctx.Err()
		}
	}
}

// moveFrom looks for another session, tells it everything, waits until data has
// all of it from there, and only then leaves the old one: at no moment is a
// registration known to nobody. It returns the link that is held afterwards:
// the old one when the client closes meanwhile, none when both were lost.
func (c *Client) moveFrom(ctx context.Context, old *link, reason string) *link {
	c.log.Info("asked to move", "from", old.session.Name, "reason", reason)
	pause := time.Duration(0)
	for {
		next, err := c.seekOther(ctx, old.address)
		if err != nil {
			pause = min(max(2*pause, firstPause), mostPause)
			timer := time.NewTimer(c.spread(pause))
			select {
			case <-timer.C:
				continue
			case <-old.done:
				timer.Stop()
				return nil
			case <-c.closing:
			case <-ctx.Done():
			}
			timer.Stop()
			return old
		}
		c.log.Info("connected", "session", next.session.String(), "address", next.address)
		for !next.told() {
			select {
			case <-next.settled:
			case <-old.done: // it could not wait: the new one has what was wished
				return next
			case <-next.done:
			case <-c.closing:
				c.part(old)
				return next
			case <-ctx.Done():
				c.part(old)
				return next
			}
			if isDone(next) {
				break
			}
		}
		if isDone(next) {
			continue // lost before it was of use: the old one is still held
		}
		c.part(old)
		c.log.Info("moved", "from", old.session.Name, "to", next.session.Name)
		return next
	}
}

func isDone(l *link) bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// goodbye ends a link politely: the session withdraws what it still has.
func (c *Client) goodbye(l *link) {
	l.end(true)
	<-l.done
}

// part breaks a link off; the client goes on elsewhere.
func (c *Client) part(l *link) {
	l.cut()
	<-l.done
}

// drop ends a link as the end of the process would. A client that announced that
// it leaves so says its last word: what it published stands for its linger. If
// something is not known to be stored it says none, since an older version may be
// all that this session has.
func (c *Client) drop(l *link) {
	switch {
	case l == nil:
		return
	case c.config.Linger > 0 && !l.owes():
		l.end(false)
	default:
		l.cut()
	}
	<-l.done
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// sleep waits for d, or until the client closes or ctx ends.
func (c *Client) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing:
	case <-ctx.Done():
	}
}

var errNoSession = errors.New("no other session is known")

// seek tries every session that is known, in an order drawn anew each time, the
// one to avoid last.
func (c *Client) seek(ctx context.Context, avoid string) (*link, error) {
	l, err := c.seekOther(ctx, avoid)
	if err != nil { // the list was no use: begin again from what was configured and resolved
		c.mu.Lock()
		c.told = nil
		c.mu.Unlock()
	}
	if err == nil || avoid == "" || ctx.Err() != nil || c.isClosing() {
		return l, err
	}
	return c.dial(ctx, avoid)
}

// seekOther tries every session but one. A client that is asked to move keeps the
// list of the session that it is still at: a session that is not open yet may be
// the only one to move to.
func (c *Client) seekOther(ctx context.Context, not string) (*link, error) {
	err := errNoSession
	for _, address := range c.candidates(ctx, not) {
		if c.isClosing() {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var l *link
		if l, err = c.dial(ctx, address); err == nil {
			return l, nil
		}
		c.log.Debug("session not reached", "address", address, "error", err)
	}
	return nil, err
}

// candidates are the sessions that the last one named, in random order, then
// those that were configured or resolved.
func (c *Client) candidates(ctx context.Context, not string) []string {
	c.mu.Lock()
	told, known := slices.Clone(c.told), slices.Concat(c.config.Sessions, c.resolved)
	c.mu.Unlock()
	if c.config.Resolve != nil && len(told) == 0 {
		if resolved, err := c.config.Resolve(ctx); err != nil {
			c.log.Warn("could not resolve the sessions", "error", err)
		} else {
			known = append(known, resolved...)
			c.mu.Lock()
			c.resolved = resolved
			c.mu.Unlock()
		}
	}
	c.shuffle(told)
	c.shuffle(known)
	var out []string
	for _, a := range append(told, known...) {
		if a != not && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func (c *Client) shuffle(s []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
