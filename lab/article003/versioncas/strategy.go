package versioncas

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"conclave"
	"conclave/elector"
	conclavesql "conclave/sql"
)

//go:embed sql/*.sql
var files embed.FS

// statement returns a statement in the folder sql by its name.
var statement = conclavesql.Statements(files)

// Config configures a Strategy. DB and Key are required.
type Config struct {
	DB  *conclavesql.DB
	Key string // of the row: 1 to 255 printable ASCII characters; Migrate creates it

	Logger *slog.Logger // nil discards the log lines
}

// Strategy elects by a compare-and-swap of the version of one row. Its methods are
// called by one goroutine.
type Strategy struct {
	cfg Config
	log *slog.Logger

	version uint64          // of the row, as this node's last statement left it; only while a term is held
	won     elector.Term    // the held term; zero if none is held
	owner   conclave.NodeID // the last owner that the row was seen to name
}

var _ elector.Strategy = (*Strategy)(nil)

// New returns a Strategy, or an error if the configuration is invalid. It does not
// connect.
func New(cfg Config) (*Strategy, error) {
	if cfg.DB == nil {
		return nil, errors.New("versioncas: DB is missing")
	}
	if err := validateKey(cfg.Key); err != nil {
		return nil, fmt.Errorf("versioncas: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Strategy{cfg: cfg, log: cfg.Logger}, nil
}

// validateKey returns an error if key cannot be stored.
func validateKey(key string) error { return conclavesql.ValidateName("key", key, 255) }

// Migrate creates the table and the key's row if they are missing. Any number of
// processes may call it at the same time, and repeatedly.
func Migrate(ctx context.Context, db *conclavesql.DB, key string) error {
	return create(ctx, db, key, statement("table"), statement("seed"))
}

// create creates a table and a key's row in it.
func create(ctx context.Context, db *conclavesql.DB, key, table, seed string) error {
	if err := validateKey(key); err != nil {
		return fmt.Errorf("versioncas: %w", err)
	}
	if err := db.Create(ctx, table); err != nil {
		return fmt.Errorf("versioncas: %w", err)
	}
	if _, err := db.Exec(ctx, seed, key); err != nil {
		return fmt.Errorf("versioncas: seed %s: %w", key, err)
	}
	return nil
}

// row is the row as read at one moment.
type row struct {
	version, term  uint64
	owner, address string
	lease, age     time.Duration
}

// Round plays one round. The numbers are those of the package comment.
func (s *Strategy) Round(ctx context.Context, me elector.Candidate, last elector.Term) (elector.Term, error) {
	if me.Holding != 0 {
		return s.renew(ctx, me)
	}
	s.won = elector.Term{}

	// 1. Look.
	r, err := s.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		r, err = s.createRow(ctx, me)
	}
	switch {
	case err != nil:
		return elector.Term{}, err
	case me.Observer:
		return s.observe(ctx, me, r)
	}
	// 2 and 3. Is there a reason to compete? 4. Swap.
	if why := mayCompete(me, r, last); why != reasonNone {
		return s.compete(ctx, me, r, why)
	}
	return r.termFor(me), nil
}

// look reads the row. It returns ErrNoRows if there is none.
func (s *Strategy) look(ctx context.Context) (row, error) {
	var r row
	var leaseMs, ageUs int64
	err := s.cfg.DB.QueryRow(ctx, statement("look"), []any{s.cfg.Key}, &r.version, &r.term, &r.owner, &r.address, &leaseMs, &ageUs)
	if err != nil {
		return row{}, fmt.Errorf("look at %s: %w", s.cfg.Key, err)
	}
	r.lease = time.Duration(leaseMs) * time.Millisecond
	r.age = time.Duration(ageUs) * time.Microsecond
	if owner, err := conclave.ParseNodeID(r.owner); err == nil && !owner.IsZero() {
		s.owner = owner
	}
	return r, nil
}

// createRow creates the missing row again. A node that has seen a higher version
// observes the row for a lease before it competes (see mayCompete), because the leader
// may act until its next beat.
func (s *Strategy) createRow(ctx context.Context, me elector.Candidate) (row, error) {
	if me.Observer {
		return row{lease: me.Lease}, nil
	}
	s.log.Warn("the row is missing, creating it", "key", s.cfg.Key, "highest", me.Highest)
	if _, err := s.cfg.DB.Exec(ctx, statement("seed"), s.cfg.Key); err != nil {
		return row{}, fmt.Errorf("seed %s: %w", s.cfg.Key, err)
	}
	return s.look(ctx)
}

// termFor returns the row as an Elector sees it. If the row names the reader, the term
// has no Leader: a node knows what it leads from its own statements only.
func (r row) termFor(me elector.Candidate) elector.Term {
	t := elector.Term{Number: r.term, Beat: r.version - r.term, Lease: r.lease, Age: r.age}
	if t.Lease <= 0 {
		t.Lease = me.Lease
	}
	if owner, err := conclave.ParseNodeID(r.owner); err == nil && owner != me.ID {
		t.Leader, t.Address = owner, r.address
	}
	return t
}

// observe returns what the row names. If it names this observer, it gives the term up,
// so that the candidates need not wait for its lease.
func (s *Strategy) observe(ctx context.Context, me elector.Candidate, r row) (elector.Term, error) {
	if r.owner == me.ID.String() {
		if _, err := s.cfg.DB.Exec(ctx, statement("resign"), s.cfg.Key, r.owner, r.term); err != nil {
			return elector.Term{}, fmt.Errorf("give up term %d: %w", r.term, err)
		}
		s.log.Info("an observer gave up its term", "term", r.term)
	}
	return r.termFor(me), nil
}

// Resign removes the owner from the row. The statement names owner and term, so it can
// be repeated safely, which Resign does once after an error.
func (s *Strategy) Resign(ctx context.Context, held elector.Term) error {
	s.won, s.owner = elector.Term{}, held.Leader
	args := []any{s.cfg.Key, held.Leader.String(), held.Number}
	_, err := s.cfg.DB.Exec(ctx, statement("resign"), args...)
	if err != nil {
		_, err = s.cfg.DB.Exec(ctx, statement("resign"), args...)
	}
	if err != nil {
		return fmt.Errorf("resign term %d: %w", held.Number, err)
	}
	return nil
}
