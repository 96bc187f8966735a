package termcas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/internal/random"
	"conclave/internal/signal"
	conclavesql "conclave/sql"
)

// Strategy elects by a compare-and-swap of the term in one row. Round, Resign and
// Record are called by one goroutine; Wake, Suspended and Doubt by any.
type Strategy struct {
	cfg     Config
	log     *slog.Logger
	history *conclavesql.History
	shared  *Shared       // nil if its connections are its own
	forMany bool          // it opens the connection of a Shared
	broken  signal.Signal // the connection of the held term is lost, or a peer was given its lock

	waitsFor atomic.Uint64        // the term for whose witness runWait waits; 0: none
	wake     signal.Signal        // a round is worth playing
	held     atomic.Pointer[hold] // nil unless this node leads; stored by the rounds only
	ctx      context.Context      // ends with Close; used by runWait
	close    context.CancelFunc

	// The fields below belong to the goroutine that plays the rounds.
	health        health            // what is logged about the database
	spare         *witnessConn      // opened by a round that had no time left to win on it; nil if there is none
	waiting       *witnessWait      // the wait for the leader's lock; nil if there is none
	retry         *time.Timer       // wakes for another try to wait; nil if none is due
	retries       int               // tries to wait for the present leader's lock, or to win a row that was locked
	renewed       time.Time         // when an observer last let the pool connect again
	beat          uint64            // of the held term
	election      *win              // the held term's election
	unled         *win              // a win whose answer was lost, or which is not led yet
	owner         conclave.NodeID   // the last owner that the row was seen to name,
	ownerOf       uint64            // and in which term
	leftAt        time.Time         // when this node found that its term had ended
	noWitness     bool              // no witness: Takeover is Lease, or the server or a proxy does not support it
	binlogChecked bool              // the binary log's format is known
	refusals      int               // errors in a row that may be temporary
	me            elector.Candidate // of the present round
	sent          time.Time         // the beginning of the beat in which a Shared sent the last statement; zero without one
}

// hold is a held term and the connection with its witness. It is never changed, only
// replaced.
type hold struct {
	term uint64
	conn *witnessConn
	lock string // the witness, held on conn; empty if there is none
	old  string // the previous leader's lock, held on conn, too; empty if it is not
}

// win is an election that this node has won or tries to win, for the history.
type win struct {
	nonce    string
	term     elector.Term
	vacant   time.Time // the end of the previous leader's lease or life, by this node's clock
	measured bool      // term.Leaderless is known
}

// measure sets the leaderless time, which ends now, if it is not known yet.
func (w *win) measure() {
	if !w.measured && !w.vacant.IsZero() {
		w.term.Leaderless = max(0, time.Since(w.vacant))
	}
	w.measured = true
}

var (
	_ elector.Strategy  = (*Strategy)(nil)
	_ elector.Waker     = (*Strategy)(nil)
	_ elector.Suspender = (*Strategy)(nil)
	_ elector.Doubter   = (*Strategy)(nil)
	_ elector.Recorder  = (*Strategy)(nil)
	_ elector.Queuer    = (*Strategy)(nil)
	_ elector.Closer    = (*Strategy)(nil)
)

// New returns a Strategy, or an error if the configuration is invalid. It does not
// connect.
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
		cfg.Ask = func(context.Context, string, uint64, string) (alive, known bool) { return false, false }
	}
	if cfg.Rand == nil {
		cfg.Rand = random.New()
	}
	cfg = cfg.quiet()
	s := &Strategy{
		cfg:       cfg,
		log:       cfg.Logger,
		history:   conclavesql.NewHistory(cfg.DB, cfg.Lock),
		wake:      signal.New(),
		noWitness: cfg.Takeover == Lease,
	}
	s.broken = s.wake
	s.health.s = s
	s.ctx, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Wake returns a channel that receives when a lock was acquired, a connection broke,
// or it is time to try again to wait for the witness.
func (s *Strategy) Wake() <-chan struct{} { return s.wake.C() }

// Suspended reports whether the held term's witness is lost, or was given to a peer.
func (s *Strategy) Suspended() bool {
	h := s.held.Load()
	return h != nil && h.conn.lost.Load()
}

// Doubt suspends the leader if a peer was given its present witness.
func (s *Strategy) Doubt(lock string) {
	if h := s.held.Load(); h != nil && h.lock != "" && h.lock == lock {
		h.conn.lost.Store(true)
		s.broken.Set()
	}
}

// WaitingFor returns the term whose leader's witness this node waits for, so that it
// would replace that leader at once if it were killed; 0 if it waits for none, or in a Shared.
func (s *Strategy) WaitingFor() uint64 { return s.waitsFor.Load() }

// Close drops every connection, as a crash does, and joins the wait for the witness.
func (s *Strategy) Close() error {
	s.close()
	if s.retry != nil {
		s.retry.Stop()
	}
	s.stopWaiting()
	s.dropSpare()
	if h := s.held.Swap(nil); h != nil {
		h.conn.close()
	}
	s.health.running.Wait()
	s.shared.leave(s.cfg.Lock.Name)
	return nil
}

// Round plays one round of the protocol (doElect in article 000). The numbers are
// those of the package comment.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (term elector.Term, err error) {
	defer func() {
		s.health.after(me, last, term, err)
		err = advised(err)
	}()
	s.me = me
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.dropHold()

	// 1. Look.
	row, err := s.read(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		row, err = s.createRow(ctx, me)
	}
	if err != nil {
		return elector.Term{}, err
	}
	s.health.clock(row)
	if me.Observer {
		s.stopWaiting()
		s.dropSpare()
		if row.term(me).ObservedFor(last) >= row.lease && time.Since(s.renewed) >= row.lease { // no node leads, or the address has moved: see compete
			s.reconnect(row.lease)
			s.renewed = time.Now()
		}
		return s.observe(ctx, me, row)
	}
	return s.follow(ctx, me, row, last)
}

// follow competes if this node may, and otherwise waits for the leader's witness
// (onFollowWorking in article 000).
func (s *Strategy) follow(ctx context.Context, me elector.Candidate, row row, last elector.Term) (elector.Term, error) {
	// 2, 4a and 4b. Is there a reason to compete?
	why := reasonToCompete(me, row, last)
	// 4c. If this node has the leader's lock, is the leader alive?
	if why == reasonNone && s.hasLockOfLeader(me, row) {
		if s.leaderConfirms(ctx, row) {
			s.returnLock(ctx, me)
		} else {
			why = reasonKilled
		}
	}
	if why != reasonNone {
		return s.compete(ctx, me, row, why, last) // 5 to 7
	}

	// 3. Wait for the leader's lock.
	s.waitForWitness(ctx, me, row)
	return row.term(me), nil
}

// dropHold closes the connection of a term that this node does not lead any more.
func (s *Strategy) dropHold() {
	h := s.held.Swap(nil)
	if h == nil {
		return
	}
	h.conn.close()
	s.leftAt = time.Now()
	s.election = nil
}

// observe returns what the row names. If it names this observer, it gives the term
// up, so that the candidates need not wait for its lease (doQuery in article 000,
// which keeps the row).
func (s *Strategy) observe(ctx context.Context, me elector.Candidate, row row) (elector.Term, error) {
	if row.owner != me.ID.String() {
		return row.term(me), nil
	}
	if _, err := s.cfg.traced(elector.EventResigning, elector.EventResigned, elector.Event{Term: row.number, Owner: me.ID}, func() (int64, error) {
		return s.execOnPool(ctx, conclavesql.LockResign, s.cfg.Lock.DataCenter, s.cfg.Lock.Name, row.owner, row.number)
	}); err != nil {
		return elector.Term{}, fmt.Errorf("give up term %d: %w", row.number, err)
	}
	s.log.Info("an observer gave up its term", "term", row.number)
	return row.term(me), nil
}
