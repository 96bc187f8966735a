package versioncas

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

// The article's times.
const (
	ArticleTick   = 5 * time.Second // the time between two ticks, and the time-out of a tick
	ArticleOffset = time.Second     // the time from the leader's tick to the follower's check
)

// The reasons of an ElectionException in article 003.
var (
	ErrNoRow     = errors.New("the election's key has no row")
	ErrNotLeader = errors.New("this node does not lead, and may not tick")
	ErrLeader    = errors.New("this node leads, and may not check the leader")
)

// ServiceConfig configures a Service. DB and Key are required.
type ServiceConfig struct {
	DB  *conclavesql.DB
	Key string
	ID  int64            // unique in the cluster; 0 draws a random one
	Now func() time.Time // the node's wall clock, by which its tasks start and it computes the age of ticks; default time.Now

	// Pause is called by Run before each tick, and between a check that found the
	// leader crashed and the re-election: moments at which a process may be stopped.
	// Default: nothing.
	Pause func(context.Context)
}

// Service is article 003 as it is written: its operations (ElectionService), its table,
// its clocks and its faults. It is for study only; use Strategy.
type Service struct {
	cfg ServiceConfig

	leading atomic.Bool
	version atomic.Int64 // as the leader assumes the row to have it
	swaps   atomic.Int64 // tries to win
}

// NewService returns a Service, or an error if the configuration is invalid. It does
// not connect.
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
	if cfg.Pause == nil {
		cfg.Pause = func(context.Context) {}
	}
	return &Service{cfg: cfg}, nil
}

// MigrateArticle creates the article's table and the key's row, at version 0.
func MigrateArticle(ctx context.Context, db *conclavesql.DB, key string) error {
	return create(ctx, db, key, statement("article_table"), statement("article_seed"))
}

// ServiceID returns this node's number (getServiceId in article 003).
func (s *Service) ServiceID() int64 { return s.cfg.ID }

// IsLeader returns the flag in this node's memory (isLeader in article 003).
func (s *Service) IsLeader() bool { return s.leading.Load() }

// Swaps returns how often this node has tried to win.
func (s *Service) Swaps() int { return int(s.swaps.Load()) }

// Elect is the first election, from version 0, whatever the row has (elect in article
// 003). It returns ErrNoRow if the row is missing.
func (s *Service) Elect(ctx context.Context) (bool, error) {
	if _, _, err := s.look(ctx); err != nil {
		return false, err
	}
	return s.electing(ctx, 0)
}

// Reelect is any later election (reelect in article 003). It reads the row again and
// swaps from the version that it reads now, whoever wrote it: the leader that
// LeaderCrashed saw, the same leader after a tick, or a node that has won since. It
// returns ErrNoRow if the row is missing.
func (s *Service) Reelect(ctx context.Context) (bool, error) {
	version, _, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	return s.electing(ctx, version)
}

// electing tries to win from version (electing in article 003). The flag becomes the
// result, also of a lost swap; without an answer it stays. The winner assumes that the
// version is now 1. After Elect that is right; after Reelect it is the fault that
// deposes the winner at its first tick.
func (s *Service) electing(ctx context.Context, version int64) (bool, error) {
	s.swaps.Add(1)
	n, err := s.cfg.DB.Exec(ctx, statement("article_elect"), s.cfg.ID, s.cfg.Key, version)
	if err != nil {
		return false, fmt.Errorf("elect from version %d: %w", version, err)
	}
	if n == 1 {
		s.version.Store(1)
	}
	s.leading.Store(n == 1)
	return n == 1, nil
}

// Tick is the leader's heartbeat (tick in article 003). It returns false if this node
// does not lead any more; it is a follower then. The local version rises before the
// statement is sent: after an error, the next tick succeeds only if this one was
// executed. It returns ErrNotLeader if this node does not lead.
func (s *Service) Tick(ctx context.Context) (bool, error) {
	if !s.IsLeader() {
		return false, ErrNotLeader
	}
	version := s.version.Add(1) - 1
	n, err := s.cfg.DB.Exec(ctx, statement("article_tick"), s.cfg.Key, version)
	if err != nil {
		return false, fmt.Errorf("tick from version %d: %w", version, err)
	}
	s.leading.Store(n == 1)
	if n == 0 {
		s.version.Store(0)
	}
	return n == 1, nil
}

// LeaderCrashed reads the row, and reports whether the last tick is older than
// ArticleTick by this node's own clock (doesLeaderCrashed in article 003). It returns
// ErrLeader if this node leads, and ErrNoRow if the row is missing.
func (s *Service) LeaderCrashed(ctx context.Context) (bool, error) {
	if s.IsLeader() {
		return false, ErrLeader
	}
	_, ticked, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	return s.cfg.Now().Sub(ticked) > ArticleTick, nil
}

// look reads the row's version and the time of its last tick.
func (s *Service) look(ctx context.Context) (version int64, ticked time.Time, err error) {
	err = s.cfg.DB.QueryRow(ctx, statement("article_look"), []any{s.cfg.Key}, &version, &ticked)
	if errors.Is(err, conclavesql.ErrNoRows) {
		err = ErrNoRow
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at %s: %w", s.cfg.Key, err)
	}
	return version, ticked, nil
}

// Run elects, and then starts the two tasks at each full five seconds of this node's
// clock (the cron expression of article 003), each beside what still runs of the one
// before, until ctx ends. It returns an error of the first election (init in article
// 003, without which the process does not start), and ignores later ones.
func (s *Service) Run(ctx context.Context) error {
	if _, err := s.Elect(ctx); err != nil {
		return err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	var at time.Time
	for {
		if last := s.cfg.Now().Truncate(ArticleTick); last.After(at) {
			at = last // a start that was missed is not made up for
		}
		at = at.Add(ArticleTick)
		if err := sleep.For(ctx, at.Sub(s.cfg.Now())); err != nil {
			return err
		}
		tasks.Go(func() { s.tickTask(ctx) })
		tasks.Go(func() { s.detectAndReelect(ctx) })
	}
}

// tickTask is the leader's task.
func (s *Service) tickTask(ctx context.Context) {
	if !s.IsLeader() {
		return
	}
	s.cfg.Pause(ctx)
	_, _ = s.Tick(ctx) // without an answer it still counts itself as the leader
}

// detectAndReelect is the follower's task, a second after the leader's. Whatever
// happens between its check and its re-election is not noticed.
func (s *Service) detectAndReelect(ctx context.Context) {
	if sleep.For(ctx, ArticleOffset) != nil || s.IsLeader() {
		return
	}
	if crashed, err := s.LeaderCrashed(ctx); err == nil && crashed {
		s.cfg.Pause(ctx)
		_, _ = s.Reelect(ctx)
	}
}
