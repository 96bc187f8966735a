package elector_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/internal/mysqltest"
)

func TestMain(m *testing.M) { mysqltest.Main(m) } // also checks for leaked goroutines

// store is a lock row in memory, for tests of the loop alone. A candidate decides
// that the lease has expired by its own observation, as in the protocol.
type store struct {
	mu     sync.Mutex // guards the fields below
	term   elector.Term
	rounds []time.Time
	broken bool
	reason error         // of a broken store; nil is errBroken
	block  chan struct{} // if not nil, rounds wait until it is closed
}

// ledBy makes other the leader of a term.
func ledBy(number, beat uint64) *store {
	return &store{term: elector.Term{Number: number, Leader: other, Beat: beat, Lease: 3 * time.Second}}
}

var other = conclave.NodeID{Name: "other", Incarnation: "1"}

var errBroken = errors.New("broken on purpose")

// strategy is one node's view of the store.
type strategy struct{ *store }

var _ elector.Strategy = strategy{}

func (s strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	s.mu.Lock()
	s.rounds = append(s.rounds, time.Now())
	block := s.block
	s.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return elector.Term{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.term.Leader == me.ID
	switch {
	case s.broken:
		return elector.Term{}, fmt.Errorf("play: %w", cmp.Or(s.reason, errBroken)) // a new error each time, as a driver's
	case me.Holding != 0 && mine && me.Holding == s.term.Number:
		s.term.Beat++
	case me.Observer || me.Holding != 0:
	case mine, s.term.Leader.IsZero(), s.term.ObservedFor(last) >= s.term.Lease:
		cause := elector.CauseExpired
		if s.term.Number == 0 {
			cause = elector.CauseFirst
		}
		s.term = elector.Term{Cause: cause, Number: max(s.term.Number, me.Highest) + 1, Leader: me.ID, Lease: me.Lease, Address: me.Address}
	}
	seen := s.term
	if mine && me.Holding == 0 && (me.Observer) {
		seen.Leader = conclave.NodeID{}
	}
	return seen, nil
}

func (s strategy) Resign(_ context.Context, held elector.Term) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errBroken
	}
	if s.term.Number == held.Number {
		s.term.Leader = conclave.NodeID{}
	}
	return nil
}

// set changes the row directly.
func (s *store) set(change func(*elector.Term)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.term)
}

// played returns how many rounds have been played.
func (s *store) played() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rounds)
}

// hang makes rounds wait until block is closed; for ever if it is nil.
func (s *store) hang(block chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = cmp.Or(block, make(chan struct{}))
}

func (s *store) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// run starts an elector on s. crash cancels its context and returns Run's error; the
// test calls it at its end in any case.
func run(t *testing.T, s *store, name string, options ...func(*elector.Config)) (e *elector.Elector, crash func() error) {
	t.Helper()
	e, start := prepare(t, s, name, options...)
	return e, start()
}

// prepare makes an elector on s; start runs it.
func prepare(t *testing.T, s *store, name string, options ...func(*elector.Config)) (e *elector.Elector, start func() (crash func() error)) {
	t.Helper()
	cfg := elector.Config{
		ID:       conclave.NodeID{Name: name, Incarnation: "1"},
		Strategy: strategy{s},
		HandOver: elector.NoHandOver, // crash ends the context
		Logger:   slog.New(slog.NewTextHandler(lines{t}, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", name),
	}
	for _, option := range options {
		option(&cfg)
	}
	e, err := elector.New(cfg)
	require.NoError(t, err)
	return e, func() (crash func() error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		crash = sync.OnceValue(func() error { cancel(); return <-ended })
		t.Cleanup(func() { crash() })
		return crash
	}
}

// lines writes log lines to the test's log.
type lines struct{ t *testing.T }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
