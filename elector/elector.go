package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/reason"
	"conclave/internal/signal"
)

var (
	// ErrNotLeading is returned by Resign and Abstain on a node that leads no
	// term.
	ErrNotLeading = errors.New("this node does not lead")
	// ErrStopped is returned once Run has ended, or ends.
	ErrStopped = errors.New("the elector's run has ended")
)

// The causes that end a leadership. context.Cause of Lead's context is one of
// them.
var (
	ErrResigned  = errors.New("resigned")                                                       // handed over on purpose
	ErrDeposed   = errors.New("deposed: the store names another term")                          // a renewal matched no row
	ErrTrust     = errors.New("trust ended: no renewal was acknowledged")                       // lease less margin has passed
	ErrPromised  = errors.New("promised away: this node answered a peer that it does not lead") // see ConfirmLeading
	ErrOutranked = errors.New("outranked: a higher term has been seen")                         // see Seen and Observe
	ErrCrashed   = errors.New("the elector was stopped")                                        // Run ended without a hand-over
)

// Elector takes part in one election while Run runs. Its methods may be called
// from any goroutine.
type Elector struct {
	cfg Config
	log *slog.Logger

	started  atomic.Int32  // whether Run was called; see the constants below
	wake     signal.Signal // a round is worth playing now
	rearm    signal.Signal // the time of the next round has changed
	commands chan func()   // run by the loop between two rounds; never closed
	stop     chan struct{} // closed by Shutdown to end Run
	stopping sync.Once
	done     chan struct{} // closed by Run at its end

	group sync.WaitGroup // Lead and WakePeers; Run joins them

	mu     sync.Mutex // guards shared; never held across I/O, a sleep or a channel operation
	shared shared
}

// The values of Elector.started.
const (
	notRun = iota
	hasRun
	neverRuns // Shutdown came first
)

// shared is what the loop shares with the methods that other goroutines call.
type shared struct {
	last       Term   // what the store records, as far as this node knows
	silent     bool   // a round that was sent a lease after last was seen has found the same; see Status.Silent
	highest    uint64 // the highest term seen anywhere
	neverAgain uint64 // terms up to this one are never led again: left, lost or promised away

	state State       // changed by step only
	since time.Time   // when the state began; wall clock
	why   string      // this node leads, or does not lead any more
	lead  *leadership // from the win until Lead has returned; nil otherwise

	// Why a node that leads no term observes.
	quit         bool      // until JoinElection
	ends         bool      // Run's context ended, or Shutdown was called: JoinElection is refused
	abstainUntil time.Time // until this time,
	abstainPast  uint64    // or until a term above this one is seen; 0: only the time counts
	abstained    time.Time // when Abstain last resigned

	sent      time.Time   // before the last round began
	pushed    time.Time   // when the leader's last new beat was pushed to this node
	unsettled bool        // the stream to the leader broke: read the store more often
	sightings int         // beats seen in the store while unsettled
	next      time.Time   // when the next round is due
	failures  int         // rounds in a row that failed
	err       error       // why the last of them did
	reasons   reason.Seen // the reasons that were logged

	resigned    uint64    // the term that a peer has reported as resigned, or that this node has resigned,
	resignedDue time.Time // and when a round is due for that reason; zero: none is
	again       bool      // the next round is due at once

	shown   Status  // the last change
	changes *queued // the place of the next one
	stats   Stats
	notes   []func() // log lines to write after mu is unlocked
}

// note keeps a log line until unlock writes it; mu is held.
func (e *Elector) note(write func(msg string, args ...any), msg string, args ...any) {
	e.shared.notes = append(e.shared.notes, func() { write(msg, args...) })
}

// unlock unlocks mu and then writes the log lines that were noted under it.
// Writing may block, so it must not happen while other goroutines wait for mu.
func (e *Elector) unlock() {
	notes := e.shared.notes
	e.shared.notes = nil
	e.mu.Unlock()
	for _, write := range notes {
		write()
	}
}

// New returns an elector that does nothing until Run, or an error if the
// configuration is invalid.
func New(cfg Config) (*Elector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	state := Following
	if cfg.Observer {
		state = Observing
	}
	return &Elector{
		cfg:      cfg,
		log:      cfg.Logger,
		wake:     signal.New(),
		rearm:    signal.New(),
		commands: make(chan func()),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		shared:   shared{state: state, since: cfg.Now(), quit: cfg.Observer, changes: &queued{set: make(chan struct{})}},
	}, nil
}

// Run takes part in the election until ctx ends or Shutdown is called. It may be
// called once. It joins every goroutine that it started, Lead included, and only then
// closes the connections: no other node leads before Lead has returned or trust in the
// term has ended (TrustedUntil).
//
// When ctx ends, a leader hands its term over, as Shutdown does, within
// Config.HandOver. Run returns nil if that is done, or if the node led no term, and
// otherwise an error that wraps ctx's and names the reason. With NoHandOver it gives
// nothing up, wakes no peer, and returns ctx's error. After Shutdown it returns nil, and
// with Config.StopOnError the error of Lead.
func (e *Elector) Run(ctx context.Context) error {
	switch {
	case e.started.CompareAndSwap(notRun, hasRun):
	case e.started.Load() == neverRuns:
		return nil
	default:
		return errors.New("elector: Run was called twice")
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx)) // of the rounds; ends after Lead
	defer e.end(cancel)
	left := make(chan error, 1)
	e.group.Go(func() {
		left <- e.leaveAtEnd(ctx, run)
		e.abandon(cancel)
	})

	var woken <-chan struct{} // nil, which blocks for ever, if the strategy is no Waker
	if w, ok := e.cfg.Strategy.(Waker); ok {
		woken = w.Wake()
	}
	timer := time.NewTimer(0) // the first round is due now
	defer timer.Stop()
	for {
		select {
		case err := <-left:
			return err
		case <-e.stop:
			return nil
		case <-timer.C:
			e.round(run)
		case <-e.wake.C():
			e.round(run)
		case <-woken:
			e.roundUnlessLeading(run)
		case <-e.rearm.C():
		case command := <-e.commands:
			command()
		case <-e.leadReturned():
			if err := e.afterLead(run); err != nil {
				return err
			}
		}
		timer.Reset(time.Until(e.nextRound()))
	}
}

// leaveAtEnd waits for the end of ctx. Then it hands over what this node leads, within
// Config.HandOver, and returns why that could not be done. run ends with Run.
func (e *Elector) leaveAtEnd(ctx, run context.Context) error {
	select {
	case <-ctx.Done():
	case <-run.Done():
		return nil
	}
	if e.cfg.HandOver == NoHandOver {
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(run, e.cfg.HandOver)
	defer cancel()
	err := e.quitForEver(limited)
	switch {
	case err == nil || run.Err() != nil: // handed over, or Shutdown has ended Run
		return nil
	case limited.Err() != nil:
		err = fmt.Errorf("the term was not handed over within %v: Lead has not returned, or the store did not answer", e.cfg.HandOver)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// quitForEver makes this node an observer that cannot join again: it would lead a term
// that it does not hand over. The right to act ends at once, and so does the chance to
// win, also while the loop waits for the answer of a round.
func (e *Elector) quitForEver(ctx context.Context) error {
	e.mu.Lock()
	e.shared.ends = true
	e.unlock()
	done := make(chan error, 1)
	if !e.leave(asksToQuit, done) {
		return e.Quit(ctx) // after the round in progress, if there is one
	}
	return e.result(ctx, done)
}

// abandon ends the leadership of a term that is not handed over, waits for Lead, and
// only then ends the rounds: to cancel a statement closes its connection, and so frees
// the witness.
func (e *Elector) abandon(endRounds context.CancelFunc) {
	e.mu.Lock()
	l := e.shared.lead
	e.apply(losesTerm, ErrCrashed)
	e.unlock()
	if l != nil {
		<-l.returned
	}
	endRounds()
}

// end finishes Run: it joins all that Run started, Lead first, and closes the
// connections, so that the store frees the witness of a term that was not handed over.
func (e *Elector) end(endRounds context.CancelFunc) {
	e.abandon(endRounds)
	e.group.Wait()
	e.mu.Lock()
	e.shared.lead = nil
	e.unlock()
	if c, ok := e.cfg.Strategy.(Closer); ok {
		if err := c.Close(); err != nil {
			e.log.Warn("close the strategy", "error", err)
		}
	}
	close(e.done)
}

// Shutdown leaves the election: a leader resigns first, then Run returns nil. If
// ctx ends before that, Run ends without a hand-over, and the other nodes wait
// for the lease. Before Run, Shutdown only makes Run return at once. It is for a program
// that stops its parts in an order of its own; otherwise end Run's context.
func (e *Elector) Shutdown(ctx context.Context) error {
	if e.started.CompareAndSwap(notRun, neverRuns) {
		e.end(func() {})
	}
	err := e.quitForEver(ctx)
	e.stopping.Do(func() { close(e.stop) })
	select {
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(err, ErrStopped) {
		return nil
	}
	return err
}

// Leading returns the term that this node leads, and reports whether it may act
// under it now. Call it immediately before each act: it compares the end of trust
// with the monotonic clock, and it is false while the leader is suspended,
// although Lead's context is alive then. It never blocks on I/O. (amILeader in article
// 000.)
func (e *Elector) Leading() (Term, bool) {
	suspended := e.suspended()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shared.stateAt(time.Now(), suspended) != Leading {
		return Term{}, false
	}
	return e.shared.lead.term, true
}

// Current returns what this node knows about the store: the term that it last
// read or that the leader pushed. Leader is zero if the last one has given the term up;
// one that has died stays until another has won: see Remaining, and Status.Silent.
func (e *Elector) Current() Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.last
}

// Remaining returns how long Current is known to be valid: on the leader, until
// its trust ends; elsewhere, what is left of the lease since the last new beat.
// It is zero or negative if no leader with a valid lease is known.
func (e *Elector) Remaining() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.shared
	switch {
	case s.state.ownsTerm():
		return time.Until(s.lead.until)
	case s.last.Leader.IsZero() || s.last.Leader == e.cfg.ID:
		return 0
	}
	return time.Until(s.last.Seen.Add(s.last.Lease))
}

// TrustedUntil returns when this node's trust in its term ends unless the term is
// renewed; everything that Lead started must have ended by then. It is set from
// the win until Lead has returned, also while Lead winds down after a resignation
// (the term is renewed until then) or after the leader was deposed. Otherwise it
// is zero.
func (e *Elector) TrustedUntil() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shared.lead == nil {
		return time.Time{}
	}
	return e.shared.lead.until
}

// ID returns this node, with its incarnation.
func (e *Elector) ID() conclave.NodeID { return e.cfg.ID }

// Highest returns the highest term that this node has seen anywhere.
func (e *Elector) Highest() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.highest
}

// Observing reports whether the node is an observer, which does not compete until
// JoinElection.
func (e *Elector) Observing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shared.quit
}
