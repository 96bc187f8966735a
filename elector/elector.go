package elector

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

var (
	// ErrNotLeading: Resign or Abstain was asked of a node that leads no term.
	ErrNotLeading = errors.New("this node does not lead")
	// ErrStopped: the elector's Run has ended.
	ErrStopped = errors.New("the elector's run has ended")
)

// The causes that end a leadership; context.Cause of Lead's context is one of them.
var (
	ErrResigned  = errors.New("resigned")                                  // handed over on purpose
	ErrDeposed   = errors.New("deposed: the store names another term")     // a renewal matched no row
	ErrTrust     = errors.New("trust ended: no renewal was acknowledged")  // lease less margin has passed
	ErrPromised  = errors.New("promised away: a peer was told we stopped") // see Testify
	ErrOutranked = errors.New("outranked: a higher term has been seen")    // see Seen and Observe
	ErrCrashed   = errors.New("the elector was stopped")                   // Run's context ended
)

// Elector takes part in one election for as long as Run runs. All its methods may
// be called from any goroutine.
type Elector struct {
	cfg Config
	log hclog.Logger

	started  atomic.Bool
	wake     chan struct{} // a round is worth playing now; cap 1, never closed
	rearm    chan struct{} // the next round's time has changed; cap 1, never closed
	commands chan func()   // run by the loop between two rounds; never closed
	stop     chan struct{} // closed by Shutdown: end Run
	stopping sync.Once
	done     chan struct{} // closed by Run at its end

	group sync.WaitGroup // Lead and WakePeers; Run joins them
	feed  *feed          // transitions, for Changes
	stats stats

	mu    sync.Mutex // guards state; never held across I/O, a sleep or a wait
	state state
}

// state is what the loop, the questions and the pushed beats share.
type state struct {
	last    Term   // what the store records, as far as this node knows
	highest uint64 // the highest term seen anywhere
	left    uint64 // terms up to here are never led (again): left, lost or promised away

	lead *leadership // from the win until Lead has returned; nil otherwise

	observer     bool      // does not compete until JoinElection
	abstainUntil time.Time // does not compete until then,
	abstainPast  uint64    // or until a term above this is seen; 0: only the time counts
	abstained    time.Time // when Abstain last worked

	sent      time.Time // before the last round began
	pushed    time.Time // when the leader's last new beat was pushed to us
	unsettled bool      // the stream to the leader broke: look closely
	sightings int       // beats seen while unsettled
	failures  int       // rounds in a row that failed
	again     bool      // the next round is due at once

	notes []func() // log lines, written when mu is free again
}

// note keeps a log line until mu is free; mu is held.
func (e *Elector) note(write func(msg string, args ...any), msg string, args ...any) {
	e.state.notes = append(e.state.notes, func() { write(msg, args...) })
}

// unlock frees mu and then writes what was noted under it: no line is written,
// which may block, while others wait for mu.
func (e *Elector) unlock() {
	notes := e.state.notes
	e.state.notes = nil
	e.mu.Unlock()
	for _, write := range notes {
		write()
	}
}

// New checks the configuration. Nothing runs before Run.
func New(cfg Config) (*Elector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Elector{
		cfg:      cfg,
		log:      cfg.Logger,
		wake:     make(chan struct{}, 1),
		rearm:    make(chan struct{}, 1),
		commands: make(chan func()),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		feed:     newFeed(),
		state:    state{observer: cfg.Observer},
	}, nil
}

// Run takes part until ctx ends or Shutdown is called, and joins everything it
// started, Lead included. A cancelled ctx is a crash: nothing is resigned, nobody
// is told, the connections close, and Run returns ctx's error. After Shutdown it
// returns nil. It may be called once.
func (e *Elector) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("elector: Run was called twice")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer e.end(cancel)

	var woken <-chan struct{} // the strategy's own reasons; nil when it has none
	if w, ok := e.cfg.Strategy.(Waker); ok {
		woken = w.Wake()
	}
	timer := time.NewTimer(0) // the first round is due now
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.stop:
			return nil
		case <-timer.C:
			e.round(ctx)
		case <-e.wake:
			e.round(ctx)
		case <-woken:
			e.roundIfUseful(ctx)
		case <-e.rearm:
		case command := <-e.commands:
			command()
		case err := <-e.leadReturned():
			e.afterLead(ctx, err)
		}
		timer.Reset(time.Until(e.nextRound()))
	}
}

// end is the last act of Run: as a crash would, it closes the connections under
// whatever is going on; then it joins Lead.
func (e *Elector) end(cancel context.CancelFunc) {
	cancel()
	e.mu.Lock()
	if l := e.state.lead; l != nil {
		e.endLeadership(l, ErrCrashed)
		l.timer.Stop()
	}
	e.unlock()
	if c, ok := e.cfg.Strategy.(Closer); ok {
		if err := c.Close(); err != nil {
			e.log.Warn("close the strategy", "error", err)
		}
	}
	e.group.Wait()
	close(e.done)
	e.feed.close()
}

// Shutdown leaves the election gracefully: a leader hands over first, as Resign
// does. Then Run returns nil. When ctx ends first Run ends all the same, and the
// others wait for the lease.
func (e *Elector) Shutdown(ctx context.Context) error {
	if !e.started.Load() {
		return nil
	}
	err := e.Quit(ctx)
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

// Leading says whether this node leads right now, and which term. It is the check
// to make at the moment of acting: it reads the monotonic clock, and it is false
// while the hold on the term is suspended, although Lead's context is alive then.
func (e *Elector) Leading() (Term, bool) {
	if s, ok := e.cfg.Strategy.(Suspender); ok && s.Suspended() {
		return Term{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.state.lead
	if l == nil || !l.trusted() {
		return Term{}, false
	}
	return l.term, true
}

// Current is what this node knows of the store: the leader that it records, or
// that the leader's own beats told of. Its Leader is zero when there is none.
func (e *Elector) Current() Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.last
}

// Remaining is for how long Current is known to be good: on the leader, how long
// it trusts itself; elsewhere, how much of the lease is left since the last sign
// of life. Not above zero: no leader with a valid lease is known.
func (e *Elector) Remaining() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.state
	switch {
	case s.lead != nil && s.lead.ended == nil:
		return time.Until(s.lead.until)
	case s.last.Leader.IsZero() || s.last.Leader == e.cfg.ID:
		return 0
	}
	return time.Until(s.last.Seen.Add(s.last.Lease))
}

// TrustedUntil is the moment at which this node's trust in its term ends, unless the
// term is renewed before: what Lead started must be over by then. It is known from the
// win until Lead has returned, also while Lead winds down after a resignation (the term
// is renewed until then) and after it was deposed; otherwise it is zero.
func (e *Elector) TrustedUntil() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.lead == nil {
		return time.Time{}
	}
	return e.state.lead.until
}

// Highest is the highest term that this node has seen anywhere.
func (e *Elector) Highest() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.highest
}

// Observing says whether the node stays out of the election until JoinElection.
func (e *Elector) Observing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.observer
}

// nudge makes a signal of capacity one; it never blocks.
func nudge(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
