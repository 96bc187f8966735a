package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"conclave/elector"
	"conclave/elector/rowlock"
	"conclave/elector/termcas"
	"conclave/elector/versioncas"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// The defaults of Conclave's elections: a beat each third of the lease.
var own = Times{Lease: 3 * time.Second, Beat: time.Second, Check: time.Second}

var witnessRule = Rule{
	Name: "conclave", From: "elector/termcas, takeover=witness (the cluster's default)",
	About:    "A term in one row; the leader holds a named lock on the connection it renews with, and followers wait for it.",
	Weakness: "A leader that is stopped with its connection broken is passed over at once: beliefs may overlap, effects do not.",
	Own:      own, Fences: true,
	migrate: migrateLock,
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.termcas(termcas.Witness)
	},
}

var leaseRule = Rule{
	Name: "conclave-lease", From: "elector/termcas, takeover=lease (`conclave lead`)",
	About: "The same row; nothing but the lease ends a term, observed by each follower's own clock.",
	Own:   own, Fences: true, Exclusive: true,
	migrate: migrateLock,
	start: func(_ context.Context, s *stand) (candidate, error) {
		return s.termcas(termcas.Lease)
	},
}

var sofaRule = Rule{
	Name: "sofaregistry", From: "article 000; elector/termcas, profile sofa",
	About:    "Compare and swap of (owner, term, beat); ages in whole seconds by the database; no resignation.",
	Weakness: "Whole seconds: a lease of 1 s is over after 2 to 3. Who leaves is waited for like who died. (The loop around the statements is Conclave's, and its trust.)",
	Own:      Times{Lease: 20 * time.Second, Beat: time.Second, Check: time.Second},
	migrate:  migrateLock,
	start: func(_ context.Context, s *stand) (candidate, error) {
		strategy, err := termcas.NewSofa(termcas.Config{DB: s.db, Lock: s.lock(), Takeover: termcas.Lease})
		if err != nil {
			return nil, err
		}
		return s.elector(strategy, s.db.Statements, nil)
	},
}

var versionRule = Rule{
	Name: "version-cas", From: "article 003, repaired; elector/versioncas",
	About: "One number is the fence, the beat and the term; observed like a lease.",
	Own:   own, Fences: true, Exclusive: true,
	migrate: versioncas.Migrate,
	start: func(_ context.Context, s *stand) (candidate, error) {
		strategy, err := versioncas.New(versioncas.Config{DB: s.db, Key: s.Lab})
		if err != nil {
			return nil, err
		}
		return s.elector(strategy, s.db.Statements, func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error) {
			n, err := db.Exec(ctx, conclavesql.LabWriteVersion, term, s.Lab, s.ID().String(), term)
			return n == 1, err
		})
	},
}

var rowRule = Rule{
	Name: "row-lock", From: "article 001, repaired; elector/rowlock",
	About: "A row under a unique key, its id the term; who waits for it cleans it.",
	Own:   own, Fences: true, Exclusive: true,
	migrate: func(ctx context.Context, db *conclavesql.DB, _ string) error { return rowlock.Migrate(ctx, db) },
	start: func(_ context.Context, s *stand) (candidate, error) {
		strategy, err := rowlock.New(rowlock.Config{DB: s.db, Key: s.Lab})
		if err != nil {
			return nil, err
		}
		return s.elector(strategy, s.db.Statements, func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error) {
			n, err := db.Exec(ctx, conclavesql.LabWriteRow, term, s.Lab, s.ID().String(), term)
			return n == 1, err
		})
	},
}

func migrateLock(ctx context.Context, db *conclavesql.DB, lab string) error {
	return db.Migrate(ctx, conclavesql.Lock{DataCenter: conclavesql.DefaultDataCenter, Name: lab})
}

// lock is the lab's row of article 000.
func (s *stand) lock() conclavesql.Lock {
	return conclavesql.Lock{DataCenter: conclavesql.DefaultDataCenter, Name: s.Lab}
}

// termcas is the cluster's own election.
func (s *stand) termcas(takeover termcas.Takeover) (candidate, error) {
	strategy, err := termcas.New(termcas.Config{DB: s.db, Lock: s.lock(), Takeover: takeover, Ask: ask})
	if err != nil {
		return nil, err
	}
	return s.elector(strategy, s.db.Statements, func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error) {
		n, err := db.Exec(ctx, conclavesql.LabWriteFenced, term, s.lock().DataCenter, s.Lab, s.ID().String(), term)
		return n == 1, err
	})
}

// ask is the question at a leader's port.
func ask(ctx context.Context, address string, term uint64, lock string) (alive, answered bool) {
	query := url.Values{"term": {strconv.FormatUint(term, 10)}, "lock": {lock}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/?"+query.Encode(), nil)
	if err != nil {
		return false, false
	}
	request.Close = true
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 16))
	if err != nil {
		return false, false
	}
	said := string(body)
	return said == "true", said == "true" || said == "false"
}

// guard is a write under a term.
type guard func(ctx context.Context, db *conclavesql.DB, term uint64) (bool, error)

// electing is a candidate that is an elector with one of its strategies.
type electing struct {
	*elector.Elector
	asked func() uint64 // requests to the store
}

// guarding is one whose term can guard a write.
type guarding struct {
	electing
	guard
}

func (g guarding) fenced(ctx context.Context, db *conclavesql.DB, number uint64) (bool, error) {
	return g.guard(ctx, db, number)
}

// elector makes a candidate of a strategy. What it believes is what it claims under its
// own mutex, at the moment at which it becomes true.
func (s *stand) elector(strategy elector.Strategy, asked func() uint64, fence guard) (candidate, error) {
	e, err := elector.New(elector.Config{
		ID: s.ID(), Address: s.address, Strategy: strategy, Lease: s.Times.Lease, Beat: s.Times.Beat,
		WakePeers: func(context.Context, elector.Term) { s.say(Event{What: "wake", At: stamp(time.Now())}) },
		Trace: func(c trace.Claim) {
			switch c.Kind {
			case trace.Led, trace.Extended:
				s.belief.lead(c.Term, c.Until)
			case trace.Left:
				s.belief.leave(c.Err.Error())
			}
		},
	})
	if err != nil {
		return nil, err
	}
	s.asked = e.ConfirmLeading
	if fence == nil {
		return electing{e, asked}, nil
	}
	return guarding{electing{e, asked}, fence}, nil
}

// Stop hands over.
func (e electing) Stop(ctx context.Context) error { return e.Shutdown(ctx) }

// Leading is the elector's check at the moment of acting.
func (e electing) Leading() (uint64, bool) {
	term, ok := e.Elector.Leading()
	return term.Number, ok
}

// Cost counts a round as a turn.
func (e electing) Cost() (statements, turns uint64) { return e.asked(), e.Stats().Rounds }
