package sofaloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"conclave/internal/sleep"
	conclavesql "conclave/sql"
)

// The original's times.
const (
	Duration = 20 * time.Second // of the lock
	Interval = time.Second      // between two rounds
)

// Config configures a Loop. DB, Lock and Myself are required.
type Config struct {
	DB   *conclavesql.DB
	Lock conclavesql.Lock

	// Myself is the owner that this node writes into the row: the original has
	// its IP. There is no incarnation in it.
	Myself   string
	Observer bool // this node reads and does not take part (isObserver in article 000)

	Duration time.Duration    // of the lock, in whole milliseconds. Default 20 s
	Interval time.Duration    // between two rounds. Default 1 s
	Now      func() time.Time // the node's wall clock. Default time.Now

	// OnIamLeader or OnIamNotLeader is called at the end of each round, also if
	// nothing has changed. They may be nil.
	OnIamLeader, OnIamNotLeader func()
}

// Loop is one node of article 000's election. AmILeader and Leader may be
// called from any goroutine.
type Loop struct {
	cfg Config

	mu         sync.Mutex // guards the field below; not held across statements and callbacks
	leaderInfo LeaderInfo // of the last round that succeeded
}

// LeaderInfo is what a node believes about the leader (LeaderInfo in article
// 000). The original's has an epoch as well, which is the time of the last
// renewal. The term is in neither.
type LeaderInfo struct {
	Leader string    // empty if there is none
	Expire time.Time // when it ends, a time of the database's clock
}

// New returns a Loop, or an error if the configuration is invalid. It does not
// connect.
func New(cfg Config) (*Loop, error) {
	if cfg.DB == nil {
		return nil, errors.New("sofaloop: DB is missing")
	}
	if err := cfg.Lock.Validate(); err != nil {
		return nil, fmt.Errorf("sofaloop: %w", err)
	}
	if err := conclavesql.ValidateName("myself", cfg.Myself, 512); err != nil {
		return nil, fmt.Errorf("sofaloop: %w", err)
	}
	cfg.Duration = cmp.Or(cfg.Duration, Duration)
	cfg.Interval = cmp.Or(cfg.Interval, Interval)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Loop{cfg: cfg}, nil
}

// Run plays rounds until ctx ends, with the interval between them. It ignores
// their errors: the next round is the retry.
func (l *Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = l.Elect(ctx)
		_ = sleep.For(ctx, l.cfg.Interval)
	}
	return ctx.Err()
}

// Elect plays one round (elect in article 000). After an error the node believes
// what it believed before, and no callback has been called; a call that hangs
// is the same for as long as it does. Only one goroutine may call Elect: the
// original's is synchronized.
func (l *Loop) Elect(ctx context.Context) error {
	play := l.doElect
	if l.cfg.Observer {
		play = l.doQuery
	}
	info, err := play(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.leaderInfo = info
	l.mu.Unlock()
	callback := l.cfg.OnIamNotLeader
	if l.AmILeader() {
		callback = l.cfg.OnIamLeader
	}
	if callback != nil {
		callback()
	}
	return nil
}

// AmILeader reports whether this node believes that it leads (amILeader in
// article 000): the row that it read last names it, and half of the lock's
// duration since the last renewal, by the database's clock, has not passed by
// this node's.
func (l *Loop) AmILeader() bool {
	info := l.Leader()
	return info.Leader == l.cfg.Myself && l.cfg.Now().Before(info.Expire)
}

// Leader returns what this node believes about the leader.
func (l *Loop) Leader() LeaderInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaderInfo
}
