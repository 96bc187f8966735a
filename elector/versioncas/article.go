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
	ArticleTick   = 5 * time.Second // between two ticks, and the time-out after which a tick is missed
	ArticleOffset = time.Second     // how much later than the tick the follower's check runs
)

// ServiceConfig is what a Service needs.
type ServiceConfig struct {
	DB  *conclavesql.DB
	Key string
	ID  int64            // zero draws one
	Now func() time.Time // the node's wall clock, by which it judges ticks; nil is time.Now
}

// Service is article 003 to the letter: its operations by their names, its tables,
// its clocks and its faults. It is here to be looked at; use Strategy.
type Service struct {
	cfg ServiceConfig

	mu      sync.Mutex // guards what follows
	leading bool
	version int64 // the last one seen, or believed
	swaps   int   // elections tried
}

// NewService checks the configuration; it connects to nothing.
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

// MigrateArticle makes the article's table and the key's row, at version 0.
func MigrateArticle(ctx context.Context, db *conclavesql.DB, key string) error {
	return migrate(ctx, db, key, conclavesql.ArticleVersionTable, conclavesql.ArticleVersionSeed)
}

// ServiceID is this node's number, unique in the cluster (getServiceId).
func (s *Service) ServiceID() int64 { return s.cfg.ID }

// IsLeader is the flag in this node's memory.
func (s *Service) IsLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading
}

// Swaps is how many elections this node has tried.
func (s *Service) Swaps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.swaps
}

// Elect is the first election: from version 0.
func (s *Service) Elect(ctx context.Context) (bool, error) { return s.swap(ctx, 0) }

// Reelect is any other: from the last version that LeaderCrashed saw.
func (s *Service) Reelect(ctx context.Context) (bool, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	return s.swap(ctx, version)
}

// swap is both. Who wins believes that the version is now 1: true after Elect, and
// after Reelect the fault that deposes the winner at its first tick.
func (s *Service) swap(ctx context.Context, version int64) (bool, error) {
	s.mu.Lock()
	s.swaps++
	s.mu.Unlock()
	n, err := s.cfg.DB.Exec(ctx, conclavesql.ArticleVersionElect, s.cfg.ID, s.cfg.Key, version)
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

// Tick is the leader's sign of life; false when it was none, and is a follower now.
func (s *Service) Tick(ctx context.Context) (bool, error) {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	n, err := s.cfg.DB.Exec(ctx, conclavesql.ArticleVersionTick, s.cfg.Key, version)
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

// LeaderCrashed reads the row (doesLeaderCrashed): the leader is taken for dead when
// its last tick is older than a tick's period, by this node's own clock.
func (s *Service) LeaderCrashed(ctx context.Context) (bool, error) {
	var version, leader int64
	var ticked time.Time
	err := s.cfg.DB.QueryRow(ctx, conclavesql.ArticleVersionLook, []any{s.cfg.Key}, &version, &leader, &ticked)
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", s.cfg.Key, err)
	}
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	return s.cfg.Now().Sub(ticked) > ArticleTick, nil
}

// Run elects, and then ticks or checks every five seconds until ctx ends. What fails
// is tried again at the next one.
func (s *Service) Run(ctx context.Context) error {
	_, _ = s.Elect(ctx) // lost or failed: the check will tell
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
				_, _ = s.Tick(ctx) // no answer: it goes on believing
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
