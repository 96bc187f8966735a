package sofaloop

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	conclavesql "conclave/sql"
)

//go:embed sql/*.sql
var files embed.FS

// statement returns a statement in the folder sql by its name.
var statement = conclavesql.Statements(files)

// lock is the row as it was read (DistributeLockDomain in article 000).
type lock struct {
	owner              string
	duration           time.Duration
	term, termDuration uint64
	gmtModified        time.Time // the last renewal, by the database's clock
	gmtDbServerTime    time.Time // when it was read, by the same clock
}

// expire reports whether the lock has expired, by the database's clock, in
// milliseconds (expire in article 000). The statement that competes counts in
// whole seconds and so agrees up to two seconds later.
func (k lock) expire() bool { return k.gmtDbServerTime.After(k.gmtModified.Add(k.duration)) }

// leaderFrom is what a node believes after reading the row (leaderFrom in
// article 000). Expire is a time of the database's clock, and it will be
// compared with the node's.
func leaderFrom(k lock) LeaderInfo {
	return LeaderInfo{Leader: k.owner, Expire: k.gmtModified.Add(k.duration / 2)}
}

// Migrate creates the table, without a row for the lock.
func Migrate(ctx context.Context, db *conclavesql.DB, lock conclavesql.Lock) error {
	if err := db.Migrate(ctx, lock); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, statement("unseed"), lock.DataCenter, lock.Name); err != nil {
		return fmt.Errorf("remove the empty row of lock %s: %w", lock, err)
	}
	return nil
}

// doQuery is an observer's round (doQuery in article 000).
func (l *Loop) doQuery(ctx context.Context) (LeaderInfo, error) {
	k, err := l.queryDistLock(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		return LeaderInfo{}, nil
	}
	return leaderFrom(k), err
}

// doElect is a round of a node that takes part (doElect in article 000).
func (l *Loop) doElect(ctx context.Context) (LeaderInfo, error) {
	k, err := l.queryDistLock(ctx)
	switch {
	case errors.Is(err, conclavesql.ErrNoRows):
		return l.competeLeader(ctx)
	case err != nil:
		return LeaderInfo{}, err
	}
	// The role: a node whose own belief has ended follows its own row.
	if k.owner == l.cfg.Myself && l.cfg.Now().Before(l.Leader().Expire) {
		k, err = l.onLeaderWorking(ctx, k)
	} else {
		k, err = l.onFollowWorking(ctx, k)
	}
	return leaderFrom(k), err
}

// competeLeader inserts the row with term 1, and reads which node has inserted
// it first (competeLockOnInsert in article 000). If the insert fails, the row is
// read all the same.
func (l *Loop) competeLeader(ctx context.Context) (LeaderInfo, error) {
	_, _ = l.cfg.DB.Exec(ctx, conclavesql.SofaInsert, l.cfg.Lock.DataCenter, l.cfg.Lock.Name, l.cfg.Myself, "", l.cfg.Duration.Milliseconds())
	k, err := l.queryDistLock(ctx)
	return leaderFrom(k), err
}

// onLeaderWorking renews the row and reads it again (ownerHeartbeat in article
// 000). Whether the renewal has matched a row is not asked: the row shows it. If
// one of the two fails, the node continues with the row as it was before. It
// returns ErrNoRows if the row was deleted: the original's query returns null
// then, and leaderFrom throws.
func (l *Loop) onLeaderWorking(ctx context.Context, k lock) (lock, error) {
	if _, err := l.cfg.DB.Exec(ctx, conclavesql.SofaBeat, l.cfg.Lock.DataCenter, l.cfg.Lock.Name, k.owner, k.term, k.termDuration); err != nil {
		return k, nil
	}
	renewed, err := l.queryDistLock(ctx)
	switch {
	case errors.Is(err, conclavesql.ErrNoRows):
		return lock{}, err
	case err != nil:
		return k, nil
	}
	return renewed, nil
}

// onFollowWorking competes if the lock has expired, and reads which node has
// won (competeLockOnUpdate in article 000). The row's duration stays as it is.
func (l *Loop) onFollowWorking(ctx context.Context, k lock) (lock, error) {
	if !k.expire() {
		return k, nil
	}
	_, err := l.cfg.DB.Exec(ctx, conclavesql.SofaWin, l.cfg.Myself, "", k.duration.Milliseconds(),
		l.cfg.Lock.DataCenter, l.cfg.Lock.Name, k.owner, k.term, k.termDuration)
	if err != nil {
		return k, fmt.Errorf("compete for lock %s: %w", l.cfg.Lock, err)
	}
	return l.queryDistLock(ctx)
}

// queryDistLock reads the row (queryDistLock in article 000). It returns
// ErrNoRows if there is none.
func (l *Loop) queryDistLock(ctx context.Context) (lock, error) {
	var k lock
	var durationMs int64
	err := l.cfg.DB.QueryRow(ctx, statement("query"), []any{l.cfg.Lock.DataCenter, l.cfg.Lock.Name},
		&k.owner, &durationMs, &k.term, &k.termDuration, &k.gmtModified, &k.gmtDbServerTime)
	if err != nil {
		return lock{}, fmt.Errorf("query lock %s: %w", l.cfg.Lock, err)
	}
	k.duration = time.Duration(durationMs) * time.Millisecond
	return k, nil
}
