package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"conclave/internal/sleep"
	"conclave/wire"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// Times of a search for a session. The pause doubles with each round of attempts in
// which no session took the client, so that sessions to which thousands of clients
// connect at once are not kept busy with those that have given up. The time that a
// session may take to answer doubles, for that session alone, if it was silent for as
// long; others are asked meanwhile. All are for a client lease of usualLease or more,
// and shorter with a shorter one: one session of eight that answers is found within
// half of the lease, and with more addresses leastStagger later for each.
const (
	firstPause   = 20 * time.Millisecond
	maxPause     = 2 * time.Second
	welcomeFirst = 2 * time.Second
	welcomeMost  = 8 * time.Second
	leastStagger = 250 * time.Millisecond
	againAfter   = 500 * time.Millisecond // see search.again
	formerFor    = time.Minute            // then another cluster may use the address
	usualLease   = 5 * time.Second

	// The log reports a client without a session after warnFirst, and then every
	// warnAgain.
	warnFirst = 1500 * time.Millisecond
	warnAgain = 30 * time.Second

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
	avoid, again := "", false                      // the session that was lost or left last, see search
	refused, since := time.Duration(0), time.Now() // the pause after a refusal on a connection, and the begin of that
	for {
		if held == nil {
			l, err := c.seek(ctx, nil, avoid, "", again)
			switch {
			case c.isClosing():
				if l != nil {
					c.goodbye(l)
				}
				return nil
			case err != nil:
				return ctx.Err()
			}
			held, since = l, time.Now()
		}
		select {
		case <-held.done:
			c.countLost()
			c.log.Warn("lost the session", "session", held.session.Name, "error", held.err)
			if time.Since(since) > 2*maxPause {
				refused = 0
			}
			if c.noteRefusal(held.err) { // the next session may refuse it, too
				refused = sleep.Longer(refused, firstPause, maxPause)
				c.sleep(ctx, c.jittered(refused))
			}
			avoid, again, held = held.address, broke(held.err), nil
		case move := <-held.move:
			old := held
			held = c.moveFrom(ctx, old, move)
			avoid, again = old.address, false
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
	for to := move.GetTo(); ; to = "" {
		next, err := c.seek(ctx, old, old.address, to, false)
		switch {
		case err == nil:
		case isDone(old.done):
			c.countLost()
			return nil
		default:
			return old
		}
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

var (
	errNoSession = errors.New("no other session is known")
	errNoAnswer  = errors.New("no session has answered yet")
)

// search is what a client does to be welcomed by a session: attempts in a race. One
// after the other is begun, the next when the last one has failed, or has been silent
// for the stagger, a share of half a client lease; the first session that welcomes the
// client wins. A round asks each session that is not being asked already, and last
// those that were silent. One that has answered that the client must wait holds further
// attempts back: thousands that arrive at once do not open more than one connection
// each, and one more to a session whose connection broke.
type search struct {
	c         *Client
	old       *link  // still held, and left out; nil: the client has no session
	avoid     string // the session that was lost or left last; it is tried last
	again     bool   // it is tried second, after againAfter: if it saw the connection end, it keeps what it has for a quarter of the lease
	to        string // is tried first
	results   chan *attempt
	trying    map[string]*attempt
	limits    map[string]time.Duration // of the next answer
	left      []string                 // of this round
	resolving chan struct{}            // closed when Resolve has returned; nil: it is not called
	resolved  bool                     // its result is for the next round
	stagger   time.Duration            // between two attempts
	pause     time.Duration            // after the last round
	err       error                    // of the last attempt that failed
}

// attempt is one try to be welcomed by a session.
type attempt struct {
	address string
	since   time.Time
	begun   atomic.Int64 // the time from since until it was begun; 0: not yet
	waits   atomic.Bool  // the session has answered that the client must wait
	ctx     context.Context
	link    *link
	welcome *wirev1.ServerMessage
	err     error
}

// seek connects to a session: any one, but to the one to avoid last. While old is
// held, it is not avoided but left out, and if the session named by to has not been
// reached within moveLimit, seek gives up. It returns an error only then, or when ctx
// ends or the client closes.
func (c *Client) seek(ctx context.Context, old *link, avoid, to string, again bool) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the attempts that have lost
	defer context.AfterFunc(c.closing, cancel)()
	var lost <-chan struct{}
	var giveUp <-chan time.Time
	warn := time.NewTimer(warnFirst)
	defer warn.Stop()
	if old != nil {
		lost = old.done
		if to != "" {
			giveUp = time.After(moveLimit)
		}
	}
	s := &search{
		c: c, old: old, avoid: avoid, again: again, to: to, results: make(chan *attempt), trying: map[string]*attempt{},
		limits: map[string]time.Duration{}, stagger: c.scaled(welcomeFirst) / 2, err: errNoAnswer,
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for planned := true; ; { // whether the next round is, after a pause
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-giveUp:
			return nil, s.err
		case <-lost: // the attempts go on, and a new round begins, of all sessions
			s.old, lost, giveUp, s.left, planned = nil, nil, nil, nil, true
			next.Reset(0)
		case <-warn.C:
			if warn.Reset(warnAgain); s.old == nil {
				c.warnUnreached(slices.Sorted(maps.Keys(s.limits)), s.err)
			}
		case a := <-s.results:
			if a.err == nil {
				return c.adopt(a), nil
			}
			s.failed(a)
			if len(s.left) > 0 {
				next.Reset(0)
			} else if !planned {
				planned = true
				next.Reset(s.endRound())
			}
		case <-s.resolving:
			if s.resolving, s.resolved = nil, true; len(s.left) == 0 {
				next.Reset(0)
			}
		case <-next.C:
			switch d := s.held(); {
			case d > 0:
				next.Reset(d)
			case s.resolves(ctx): // a round without the result begins if that takes long
				next.Reset(s.stagger)
			case s.begin(ctx):
				planned = false
				next.Reset(s.patience())
			default:
				planned = true
				next.Reset(s.endRound())
			}
		}
	}
}

// begin begins the next attempt, of a new round if that is necessary. It reports
// whether one is in progress.
func (s *search) begin(ctx context.Context) bool {
	if len(s.left) == 0 {
		s.newRound()
	}
	if len(s.left) == 0 {
		if len(s.trying) == 0 && s.resolving == nil {
			s.err = errNoSession
		}
		return len(s.trying) > 0
	}
	a := &attempt{address: s.left[0], since: time.Now()}
	s.left = s.left[1:]
	limit := cmp.Or(s.limits[a.address], s.c.scaled(welcomeFirst))
	s.trying[a.address], s.limits[a.address] = a, limit
	s.c.attempts.Go(func() {
		s.c.greet(ctx, a, limit)
		select {
		case s.results <- a:
		case <-ctx.Done():
			a.abandon()
		}
	})
	return true
}

// newRound sets which sessions are asked next, in their order.
func (s *search) newRound() {
	all := s.c.candidates(s.avoid, s.to)
	switch {
	case s.old != nil || s.avoid == "":
	case s.again:
		all = slices.Insert(all, min(1, len(all)), s.avoid)
	default:
		all = append(all, s.avoid)
	}
	s.resolved = false
	s.stagger = max(s.c.scaled(welcomeFirst)/time.Duration(max(2, len(all))), s.c.scaled(leastStagger))
	s.left = slices.DeleteFunc(all, func(address string) bool { return s.trying[address] != nil })
	slices.SortStableFunc(s.left, func(a, b string) int { return cmp.Compare(s.limits[a], s.limits[b]) })
}

// resolves calls Resolve before a new round if no session is known to be there, and
// reports whether it does.
func (s *search) resolves(ctx context.Context) bool {
	if len(s.left) > 0 || s.resolving != nil || s.resolved || !s.c.mustResolve() {
		return false
	}
	done := make(chan struct{})
	s.resolving = done
	s.c.attempts.Go(func() {
		defer close(done)
		s.c.resolve(ctx)
	})
	return true
}

// returns reports whether the next attempt is at the session whose connection broke.
func (s *search) returns() bool { return s.again && len(s.left) > 0 && s.left[0] == s.avoid }

// patience is how long the attempts in progress may be silent before the next begins.
func (s *search) patience() time.Duration {
	if s.returns() {
		return min(s.stagger, s.c.scaled(againAfter))
	}
	return s.stagger
}

// held returns for how long the attempts in progress hold the next one back.
func (s *search) held() (d time.Duration) {
	patience := s.patience()
	for _, a := range s.trying {
		if begun := time.Duration(a.begun.Load()); begun == 0 || a.waits.Load() && !s.returns() {
			d = max(d, patience/4)
		} else {
			d = max(d, patience-(time.Since(a.since)-begun))
		}
	}
	return d
}

// failed records that an attempt has failed.
func (s *search) failed(a *attempt) {
	delete(s.trying, a.address)
	s.err = a.err
	if errors.Is(a.err, errSilent) {
		s.limits[a.address] = min(2*s.limits[a.address], s.c.scaled(welcomeMost))
	}
	s.c.log.Debug("session not reached", "address", a.address, "error", a.err)
}

// endRound returns the pause until the next round. If the client has no session, it
// starts again from those configured and resolved, since none on the list took it; without
// Resolve that list follows for a while.
func (s *search) endRound() time.Duration {
	if s.old == nil {
		s.c.mu.Lock()
		if len(s.c.advertised) > 0 {
			s.c.former, s.c.formerEnd, s.c.advertised = s.c.advertised, time.Now().Add(formerFor), nil
		}
		s.c.mu.Unlock()
		s.c.noteRefusal(s.err)
	}
	s.pause = sleep.Longer(s.pause, firstPause, s.c.scaled(maxPause))
	return s.c.jittered(s.pause)
}

// scaled returns d, or less if the client lease is short.
func (c *Client) scaled(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease > 0 && c.lease < usualLease {
		d = time.Duration(float64(d) * float64(c.lease) / float64(usualLease))
	}
	return d
}

// warnUnreached logs that no session has taken the client for a while.
func (c *Client) warnUnreached(tried []string, err error) {
	c.mu.Lock()
	c.unreached = err
	c.mu.Unlock()
	hint := "are these addresses of sessions, and does the cluster run?"
	switch {
	case wire.Refused(err):
		hint = "no process listens there: does the cluster run, and at these ports?"
	case errors.Is(err, errSilent), errors.Is(err, errNoAnswer):
		hint = "no answer: is a process suspended, a firewall in between, or TLS used at one end only?"
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		hint = "the process there is no session: is it the address of a meta or data node?"
	case wire.CodeOf(err) == wire.CodeUnauthorized, wire.CodeOf(err) == wire.CodeForbidden, wire.CodeOf(err) != "" && !broke(err):
		hint = "a session has answered that it does not take this client"
	}
	c.log.Warn("no session reached", "tried", tried, "error", err, "hint", hint)
}

// broke reports whether err is of the connection and not an answer of the session.
func broke(err error) bool {
	var e *connect.Error
	return errors.As(err, &e) && !connect.IsWireError(e)
}

// mustResolve reports whether there is a Resolve to call, since no session has
// reported others.
func (c *Client) mustResolve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config.Resolve != nil && len(c.advertised) == 0
}

// resolve calls Resolve and keeps the result, unless the search is over by then.
func (c *Client) resolve(ctx context.Context) {
	resolved, err := c.config.Resolve(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Warn("cannot resolve the sessions", "error", err)
		c.noteRefusal(err)
	default:
		c.mu.Lock()
		c.resolved = resolved
		if !c.config.Bind {
			c.given.Store(&resolved)
		}
		c.mu.Unlock()
	}
}

// candidates returns the sessions that the last session reported, in random
// order but the given one first if it is among them, then those that were
// configured or resolved, in random order, and without Resolve the former list: a session
// that was too busy may be the only one left when those that were configured have died.
func (c *Client) candidates(not, first string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	reported, known, former := slices.Clone(c.advertised), slices.Concat(c.config.Sessions, c.resolved), slices.Clone(c.former)
	if c.config.Resolve != nil || time.Now().After(c.formerEnd) { // Resolve returns those of now
		former = nil
	}
	for _, list := range [][]string{reported, known, former} {
		c.config.Rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	if at := slices.Index(reported, first); at > 0 {
		reported[0], reported[at] = reported[at], reported[0]
	}
	var out []string
	for _, a := range slices.Concat(reported, known, former) {
		if a != not && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// sentToken returns the token with which calls are sent.
func (c *Client) sentToken() string {
	if token := c.token.Load(); token != nil {
		return *token
	}
	return ""
}

// tokenFor returns what is sent to a session: the token to those of the
// configuration, and one that is bound to the address to those that other processes
// have named. It takes no lock, as a ping must not wait for one.
func (c *Client) tokenFor(address string) string {
	given := c.config.Sessions
	if resolved := c.given.Load(); resolved != nil && !slices.Contains(given, address) {
		given = *resolved
	}
	return rights.TokenFor(c.sentToken(), address, given)
}

// readToken reads the token that is sent from now on. If that fails, the last one
// is sent again.
func (c *Client) readToken() {
	if c.config.TokenFrom == nil {
		return
	}
	token, err := c.config.TokenFrom()
	if err != nil {
		c.log.Warn("the last token is sent again", "error", err)
		return
	}
	c.token.Store(&token)
}

// retries reports whether the client tries again after this refusal: another
// token may be sent, or the session's file may have it by then.
func (c *Client) retries(refusal error) bool {
	return wire.CodeOf(refusal) == wire.CodeUnauthorized && c.config.TokenFrom != nil && !c.config.GiveUp
}

// noteRefusal records whether the sessions refuse the token; err is the result of
// an attempt to connect, or of a connection. It reports whether they do. A client
// that gives up has it as the error of all that it publishes and subscribes to.
func (c *Client) noteRefusal(err error) bool {
	code := wire.CodeOf(err)
	refused := code == wire.CodeUnauthorized || code == wire.CodeForbidden
	c.mu.Lock()
	defer c.mu.Unlock()
	if !refused {
		return false
	}
	if c.refusal == nil {
		c.log.Error("the sessions refuse this client's token", "error", err)
	}
	c.refusal = err
	defer c.settled.Notify()
	if !c.config.GiveUp {
		return true
	}
	for _, p := range c.sorted() {
		p.acknowledge(0, 0, err)
	}
	for id, s := range c.subs {
		s.err = err
		delete(c.subs, id)
	}
	return true
}

// noteAccepted records that a session takes clients with this token.
func (c *Client) noteAccepted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.unreached, c.welcomed = nil, nil, true
}

// because adds to the error of a wait why no session has answered, as far as that is
// known. The lock is held.
func (c *Client) because(err error) error {
	switch {
	case !c.running:
		return fmt.Errorf("%w (the client was not started: call Start or Run)", err)
	case c.refusal != nil:
		return fmt.Errorf("%w (%w)", err, c.refusal)
	case c.unreached != nil:
		return fmt.Errorf("%w (no session is reached: %w)", err, c.unreached)
	}
	return err
}
