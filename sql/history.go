package sql

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Election is one row of the history.
type Election struct {
	Term       uint64
	Owner      string // name@incarnation of the winner
	Previous   string // the previous leader, empty for the first election
	Cause      string // first, resigned, killed, expired, restored
	Leaderless time.Duration
	At         time.Time // by the database's clock; only for display
}

// History is the record of one lock's elections. A term that was won and lost
// again before its winner's first write is not in it, since no node led it.
// After an election the new row may be missing for a beat if the database is
// busy.
type History struct {
	db   *DB
	lock Lock
}

// NewHistory returns the history of lock.
func NewHistory(db *DB, lock Lock) *History { return &History{db, lock} }

// Record writes an election; At is set by the database. The write is fenced:
// Record returns false if nothing was written, because the lock no longer names
// the winner or the term is already recorded. It may be repeated after an
// error.
func (h *History) Record(ctx context.Context, e Election) (bool, error) {
	n, err := h.db.Exec(ctx, HistoryRecord, e.Previous, e.Cause, e.Leaderless.Milliseconds(),
		h.lock.DataCenter, h.lock.Name, e.Owner, e.Term)
	if err != nil {
		return false, fmt.Errorf("record election of term %d: %w", e.Term, err)
	}
	return n == 1, nil
}

// List returns at most limit elections, the newest first.
func (h *History) List(ctx context.Context, limit int) ([]Election, error) {
	return h.Before(ctx, math.MaxInt64, limit)
}

// Before is List for the elections of lower terms.
func (h *History) Before(ctx context.Context, term uint64, limit int) ([]Election, error) {
	var list []Election
	err := h.db.Query(ctx, HistoryList, []any{h.lock.DataCenter, h.lock.Name, term, limit}, func(scan func(...any) error) error {
		var e Election
		var ms int64
		if err := scan(&e.Term, &e.Owner, &e.Previous, &e.Cause, &ms, &e.At); err != nil {
			return err
		}
		e.Leaderless = time.Duration(ms) * time.Millisecond
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list elections of %s: %w", h.lock, err)
	}
	return list, nil
}
