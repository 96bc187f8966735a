package client

import (
	"context"
	"errors"
	"slices"
	"time"

	wirev1 "conclave/wire/v1"
)

// Pauses between attempts to reach a session, and how long a session may take to
// welcome the client. Both double with each round in which no session did, so
// that sessions to which thousands of clients connect at once are not kept busy
// with those that have given up.
const (
	firstPause   = 20 * time.Millisecond
	maxPause     = 2 * time.Second
	welcomeFirst = 2 * time.Second
	welcomeMost  = 8 * time.Second

	// moveLimit is how long a client tries to move to a session that has fewer
	// clients. The session that asked takes it for staying after ten seconds.
	moveLimit = 8 * time.Second
)

// runLinks keeps the client connected to a session (its worker in article 002,
// which calls ensureConnected in a loop). It is always in one of three states:
//
//	     +---- lost: try another, the first at once, then 20 ms .. 2 s ----+
//	     v                                                                 |
//	(seeking) -- welcomed: everything is sent again --> (held) ------------+
//	                                                    |  ^
//	                             asked to move, and     |  | all is stored
//	                             another welcomed us    v  | there: leave
//	                                                 (moving)  the old one
//
// The original's worker checks every half second, and waits up to five seconds
// between attempts. This one reacts to the end of the stream.
func (c *Client) runLinks(ctx context.Context) error {
	var held *link
	avoid := "" // the session that was lost or left last; it is tried last
	pause, limit := time.Duration(0), welcomeFirst
	refused, since := time.Duration(0), time.Now() // the pause after a refusal on a connection, and the begin of that
	for {
		if held == nil {
			l, err := c.seek(ctx, avoid, limit)
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
				c.noteRefusal(err)
				pause, limit = min(max(2*pause, firstPause), maxPause), min(2*limit, welcomeMost)
				c.log.Debug("no session yet", "error", err, "pause", pause)
				c.sleep(ctx, c.jittered(pause))
				continue
			}
			held, pause, limit, since = l, 0, welcomeFirst, time.Now()
			c.noteAccepted()
			c.log.Info("connected", "session", l.session.String(), "address", l.address)
		}
		select {
		case <-held.done:
			c.countLost()
			c.log.Warn("lost the session", "session", held.session.Name, "error", held.err)
			if time.Since(since) > 2*maxPause {
				refused = 0
			}
			if c.noteRefusal(held.err) { // the next session may refuse it, too
				refused = min(max(2*refused, firstPause), maxPause)
				c.sleep(ctx, c.jittered(refused))
			}
			avoid, held = held.address, nil
		case move := <-held.move:
			old := held
			held = c.moveFrom(ctx, old, move)
			avoid = old.address
		case <-c.closing.Done():
			c.goodbye(held)
			return nil
		case <-ctx.Done():
			c.drop(held)
			return ctx.Err()
		}
	}
}

// moveFrom connects to another session, sends it everything, waits until data
// has all of it from there, and only then leaves the old session: at every
// moment some session has each registration. It returns the link that is held
// afterwards: the old one if the client closes or gives up meanwhile, nil if both
// were lost.
//
// A client that was asked to move to a certain session, because others have more
// clients, need not go: it gives up if no session has welcomed it within moveLimit.
// Once one has, it does not: that session would withdraw at the end of its lease
// what it was sent.
func (c *Client) moveFrom(ctx context.Context, old *link, move *wirev1.Move) *link {
	c.log.Info("asked to move", "from", old.session.Name, "reason", move.GetReason())
	seeking, cancel := ctx, func() {}
	if move.GetTo() != "" {
		seeking, cancel = context.WithTimeout(ctx, moveLimit)
	}
	defer func() { cancel() }()
	pause, limit := time.Duration(0), welcomeFirst
	for {
		next, err := c.seekOther(seeking, old.address, move.GetTo(), limit)
		if err != nil {
			pause, limit = min(max(2*pause, firstPause), maxPause), min(2*limit, welcomeMost)
			timer := time.NewTimer(c.jittered(pause))
			select {
			case <-timer.C:
				continue
			case <-old.done:
				timer.Stop()
				c.countLost()
				return nil
			case <-c.closing.Done():
			case <-seeking.Done():
			}
			timer.Stop()
			return old
		}
		cancel()
		seeking = ctx
		c.log.Info("connected", "session", next.session.String(), "address", next.address)
		for !next.complete() {
			select {
			case <-next.settled.C():
			case <-old.done: // the old session did not wait: go on with the new one
				c.countLost()
				return next
			case <-next.done:
			case <-c.closing.Done():
				c.leave(old)
				return next
			case <-ctx.Done():
				c.leave(old)
				return next
			}
			if isDone(next.done) {
				break
			}
		}
		if isDone(next.done) {
			continue // the new one was lost too early: the old one is still held
		}
		if isDone(old.done) {
			c.countLost()
		}
		c.leave(old)
		c.log.Info("moved", "from", old.session.Name, "to", next.session.Name)
		return next
	}
}

// countLost counts the loss of a session; see Lost.
func (c *Client) countLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost++
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// goodbye ends a link with a good-bye: the session withdraws what it still has.
func (c *Client) goodbye(l *link) {
	l.end(true)
	<-l.done
}

// leave breaks a link off; the client continues at another session.
func (c *Client) leave(l *link) {
	l.abort()
	<-l.done
}

// drop ends a link without a good-bye. A client that announced a linger ends
// its request in order, as its last message: what it published stays for the
// linger. If something is not known to be stored, the link is broken off
// instead, since this session may have an older version only.
func (c *Client) drop(l *link) {
	switch {
	case l == nil:
		return
	case c.config.Linger > 0 && !l.hasOwed():
		l.end(false)
	default:
		l.abort()
	}
	<-l.done
}

func (c *Client) isClosing() bool { return c.closing.Err() != nil }

// sleep waits for d, or until the client closes or ctx ends.
func (c *Client) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closing.Done():
	case <-ctx.Done():
	}
}

var errNoSession = errors.New("no other session is known")

// seek tries every known session in random order, and the one to avoid last.
// limit is how long each may take to welcome the client.
func (c *Client) seek(ctx context.Context, avoid string, limit time.Duration) (*link, error) {
	l, err := c.seekOther(ctx, avoid, "", limit)
	if err != nil { // no session on the list took the client: start again from those configured and resolved
		c.mu.Lock()
		c.advertised = nil
		c.mu.Unlock()
	}
	if err == nil || avoid == "" || ctx.Err() != nil || c.isClosing() {
		return l, err
	}
	return c.dial(ctx, avoid, limit)
}

// seekOther tries every session but one. A client that is asked to move keeps
// the list of the session that it is still connected to: a session on it that
// is not open yet may be the only one to move to.
func (c *Client) seekOther(ctx context.Context, not, first string, limit time.Duration) (*link, error) {
	err := errNoSession
	for _, address := range c.candidates(ctx, not, first) {
		if c.isClosing() {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var l *link
		if l, err = c.dial(ctx, address, limit); err == nil {
			return l, nil
		}
		c.log.Debug("session not reached", "address", address, "error", err)
	}
	return nil, err
}

// candidates returns the sessions that the last session reported, in random
// order but the given one first if it is among them, then those that were
// configured or resolved, in random order.
func (c *Client) candidates(ctx context.Context, not, first string) []string {
	c.mu.Lock()
	reported, known := slices.Clone(c.advertised), slices.Concat(c.config.Sessions, c.resolved)
	c.mu.Unlock()
	if c.config.Resolve != nil && len(reported) == 0 {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.closing, cancel)()
		if resolved, err := c.config.Resolve(ctx); err != nil {
			c.log.Warn("cannot resolve the sessions", "error", err)
			c.noteRefusal(err)
		} else {
			known = append(known, resolved...)
			c.mu.Lock()
			c.resolved = resolved
			if !c.config.Bind {
				c.given.Store(&resolved)
			}
			c.mu.Unlock()
		}
	}
	c.shuffle(reported)
	c.shuffle(known)
	if at := slices.Index(reported, first); at > 0 {
		reported[0], reported[at] = reported[at], reported[0]
	}
	var out []string
	for _, a := range append(reported, known...) {
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
