package versioncas

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	conclavesql "conclave/sql"
)

// The article's times.
const (
	ArticleTick   = 5 * time.Second // the time between two ticks, and the time-out of a tick
	ArticleOffset = time.Second     // the time from the leader's tick to the follower's check
)

// ServiceConfig configures a Service. DB and Key are required.
type ServiceConfig struct {
	DB  *conclavesql.DB
	Key string
	ID  int64            // unique in the cluster; 0 draws a random one
	Now func() time.Time // the node's wall clock, with which it computes the age of ticks; default time.Now
}

// Service is article 003 as it is written: its operations (ElectionService), its table,
// its clocks and its faults. It is for study only; use Strategy.
type Service struct {
	cfg ServiceConfig

	mu      sync.Mutex // guards the fields below
	leading bool
	version int64 // the last one read, or assumed after a win
	swaps   int   // tries to win
}

// NewService returns a Service, or an error if the configuration is invalid. It does
// not
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("versioncas: DB is missing")
	}
	if err := validateKey(cfg.Key); err != nil {
		return nil, fmt.Errorf("versioncas: %w", err)
	}
	for cfg.ID == 0 {
		var b [8]byte
		crand.Read(b[:])
		cfg.ID = int64(binary.BigEndian.Uint64(b[:]) >> 1)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg}, nil
}

// MigrateArticle creates the article's table and the key's row, at version 0.
func MigrateArticle(ctx context.Context, db *conclavesql.DB, key string) error {
	return create(ctx, db, key, articleTableSQL, articleSeedSQL)
}

// ServiceID returns this node's number (getServiceId in article 003).
func (s *Service) ServiceID() int64 { return s.cfg.ID }

// IsLeader returns the flag in this node's memory (isLeader in article 003).
func (s *Service) IsLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading
}

// Swaps returns how often this node has tried to win.
func (s *Service) Swaps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.swaps
}

// Elect is the first election, from version 0 (elect in article 003).
func (s *Service) Elect(ctx context.Context) (bool, error) { return s.swap(ctx, 0) }

// Reelect is any later election, from the last version that LeaderCrashed read
// (reelect in article 003).
func (s *Service) Reelect(ctx context.Context) (bool, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	return s.swap(ctx, version)
}

// swap tries to win from version. The winner assumes that the version is now 1. After
// Elect that is right; after Reelect it is the fault that deposes the winner at its
// first tick.
func (s *Service) swap(ctx context.Context, version int64) (bool, error) {
	s.mu.Lock()
	s.swaps++
	s.mu.Unlock()
	n, err := s.cfg.DB.Exec(ctx, articleElectSQL, s.cfg.ID, s.cfg.Key, version)
	if err != nil {
		return false, fmt.Errorf("elect from version %d: %w", version, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 1 {
		s.leading, s.version = true, 1
	}
	return n == 1, nil
}

// Tick is the leader's heartbeat (tick in article 003). It returns false if this node
// does not lead any more; it is a follower then.
func (s *Service) Tick(ctx context.Context) (bool, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	n, err := s.cfg.DB.Exec(ctx, articleTickSQL, s.cfg.Key, version)
	if err != nil {
		return false, fmt.Errorf("tick from version %d: %w", version, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 {
		s.leading = false
		return false, nil
	}
	s.version = version + 1
	return true, nil
}

// LeaderCrashed reads the row, and reports whether the last tick is older than
// ArticleTick by this node's own clock (doesLeaderCrashed in article 003).
func (s *Service) LeaderCrashed(ctx context.Context) (bool, error) {
	var version, leader int64
	var ticked time.Time
	err := s.cfg.DB.QueryRow(ctx, articleLookSQL, []any{s.cfg.Key}, &version, &leader, &ticked)
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", s.cfg.Key, err)
	}
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	return s.cfg.Now().Sub(ticked) > ArticleTick, nil
}

// Run elects, and then ticks or checks every five seconds until ctx ends. It ignores
// errors: the next tick or check is the retry.
func (s *Service) Run(ctx context.Context) error {
	_, _ = s.Elect(ctx) // if it fails, the first check finds out
	tick := time.NewTicker(ArticleTick)
	defer tick.Stop()
	check := time.NewTimer(ArticleTick + ArticleOffset)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if s.IsLeader() {
				_, _ = s.Tick(ctx) // without an answer it still counts itself as the leader
			}
		case <-check.C:
			check.Reset(ArticleTick)
			if s.IsLeader() {
				continue
			}
			if crashed, err := s.LeaderCrashed(ctx); err == nil && crashed {
				_, _ = s.Reelect(ctx)
			}
		}
	}
}
