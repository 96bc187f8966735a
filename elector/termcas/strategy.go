package termcas

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// Takeover says what may end another's term.
type Takeover string

const (
	// Witness: the lease, or the broken connection of a leader whose port answers
	// nobody (rule 4c). A killed leader is followed within milliseconds.
	Witness Takeover = "witness"
	// Lease: nothing but the lease. No two nodes ever believe at the same time.
	Lease Takeover = "lease"
)

// ParseTakeover reads a Takeover; the error names what was given.
func ParseTakeover(s string) (Takeover, error) {
	switch t := Takeover(s); t {
	case Witness, Lease:
		return t, nil
	}
	return "", fmt.Errorf("takeover %q is none of witness, lease", s)
}

// askLimit is how long a leader may take to answer.
const askLimit = 100 * time.Millisecond

// Config is what the Strategy needs; DB and Lock are required.
type Config struct {
	DB   *conclavesql.DB
	Lock conclavesql.Lock // migrated: its row exists

	// Takeover defaults to Witness.
	Takeover Takeover
	// Ask asks the leader of term at its address whether it is alive and trusts
	// itself; ctx ends after 100 ms. Answered and not alive: it promised never to lead
	// that term again, or the dial was refused: nobody is there. Without an answer
	// that can be trusted the witness counts; so it does with nil.
	Ask func(ctx context.Context, address string, term uint64, lock string) (alive, answered bool)

	Rand   *rand.Rand   // nonces and jitter; nil draws a seed from the system
	Logger hclog.Logger // nil drops everything
	Trace  trace.Sink   // hears each statement about the row, with the node's name (Sink.Of); nil: nobody listens
}

// Strategy elects by a compare-and-swap of the term in one row. Round and Resign
// are called by one goroutine; Wake, Suspended and Doubt by any.
type Strategy struct {
	cfg     Config
	log     hclog.Logger
	history *conclavesql.History

	parked atomic.Uint64        // the term by whose lock watch waits; 0: none
	wake   chan struct{}        // a round is worth playing; cap 1, never closed
	held   atomic.Pointer[hold] // what we lead with; nil while we do not. Stored by the rounds only
	ctx    context.Context      // ends with Close: the waiter's waits
	close  context.CancelFunc

	// What follows belongs to the goroutine that plays the rounds.
	watch   *watch          // the follower's wait for the leader's lock; nil when none
	retry   *time.Timer     // wakes for another try to park; nil when none is due
	retries int             // tries to park by the present leader
	beat    uint64          // of the held term
	won     *win            // the held term's election
	ghost   *win            // a win whose answer was lost, or which was not led
	owner   conclave.NodeID // the last owner that the row was seen to name,
	ownerOf uint64          // and in which term
	leftAt  time.Time       // when a held term was found to be over
	plain   bool            // no witness here: the server refuses or garbles named locks
	checked bool            // the binary log's format was looked at
	doubts  int             // refusals in a row that the server may not have meant
}

// hold is a leadership and the connection that stands for it. It is never changed,
// only replaced.
type hold struct {
	term uint64
	line *line
	lock string // the witness, held on line; empty when there is none
}

// win is an election of ours, for the history.
type win struct {
	nonce    string
	term     elector.Term
	vacant   time.Time // the last valid moment of the leader before, by our clock
	measured bool      // term.Leaderless is known: the history was tried
}

var (
	_ elector.Strategy  = (*Strategy)(nil)
	_ elector.Waker     = (*Strategy)(nil)
	_ elector.Suspender = (*Strategy)(nil)
	_ elector.Doubter   = (*Strategy)(nil)
	_ elector.Recorder  = (*Strategy)(nil)
	_ elector.Closer    = (*Strategy)(nil)
)

// New checks the configuration; it connects to nothing.
func New(cfg Config) (*Strategy, error) {
	if cfg.DB == nil {
		return nil, errors.New("termcas: DB is missing")
	}
	if err := cfg.Lock.Validate(); err != nil {
		return nil, fmt.Errorf("termcas: %w", err)
	}
	if cfg.Takeover == "" {
		cfg.Takeover = Witness
	}
	if _, err := ParseTakeover(string(cfg.Takeover)); err != nil {
		return nil, fmt.Errorf("termcas: %w", err)
	}
	if cfg.Ask == nil {
		cfg.Ask = func(context.Context, string, uint64, string) (alive, answered bool) { return false, false }
	}
	if cfg.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		cfg.Rand = rand.New(rand.NewChaCha8(seed))
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	s := &Strategy{
		cfg:     cfg,
		log:     cfg.Logger,
		history: conclavesql.NewHistory(cfg.DB, cfg.Lock),
		wake:    make(chan struct{}, 1),
		plain:   cfg.Takeover == Lease,
	}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Wake is signalled when a lock was obtained, a connection broke, or it is time to
// try to park again.
func (s *Strategy) Wake() <-chan struct{} { return s.wake }

// nudge signals Wake; it never blocks.
func (s *Strategy) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Suspended says that the connection which stands for the held term is lost.
func (s *Strategy) Suspended() bool {
	h := s.held.Load()
	return h != nil && h.line.lost.Load()
}

// Doubt suspends a leader whose present lock a peer was given.
func (s *Strategy) Doubt(lock string) {
	if h := s.held.Load(); h != nil && h.lock != "" && h.lock == lock {
		h.line.lost.Store(true)
		s.nudge()
	}
}

// Parked is the term by whose leader's lock this node waits, so that it would
// follow that leader at once if it were killed; 0 when it waits by none.
func (s *Strategy) Parked() uint64 { return s.parked.Load() }

// Close drops every connection, as a crash does, and joins the waiter.
func (s *Strategy) Close() error {
	s.close()
	if s.retry != nil {
		s.retry.Stop()
	}
	s.unpark()
	if h := s.held.Swap(nil); h != nil {
		h.line.close()
	}
	return nil
}

// Round plays one round of the protocol; the numbers are those of the package's
// chapter.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.letGo()

	// 1. Look.
	row, err := s.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		row, err = s.absent(ctx, me)
	}
	if err != nil {
		return elector.Term{}, err
	}
	if me.Observer {
		s.unpark()
		return s.observe(ctx, me, row)
	}

	// 2 and 4. Entitled?
	if ground := s.entitled(ctx, me, row, last); ground != none {
		return s.compete(ctx, me, row, ground, last) // 5 to 7
	}

	// 3. Stand by the leader's lock.
	s.standBy(ctx, me, row)
	return row.term(me), nil
}

// letGo drops what a term held that is not ours any more.
func (s *Strategy) letGo() {
	h := s.held.Swap(nil)
	if h == nil {
		return
	}
	h.line.close()
	s.leftAt = time.Now()
	s.won = nil
}

// observe only looks. A row that names an observer names nobody who leads: the
// term is given back, so that a candidate need not wait for its lease.
func (s *Strategy) observe(ctx context.Context, me elector.Candidate, row row) (elector.Term, error) {
	if row.owner != me.ID.String() {
		return row.term(me), nil
	}
	if _, err := s.cfg.traced(trace.Resigning, trace.Resigned, trace.Claim{Term: row.number, Peer: me.ID}, func() (int64, error) {
		return s.cfg.DB.Exec(ctx, conclavesql.LockResign, s.cfg.Lock.DataCenter, s.cfg.Lock.Name, row.owner, row.number)
	}); err != nil {
		return elector.Term{}, fmt.Errorf("give term %d back: %w", row.number, err)
	}
	s.log.Info("an observer's term was given back", "term", row.number)
	return row.term(me), nil
}
