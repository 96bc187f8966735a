package meta

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
)

// electionsFresh is how long an answer is used again.
const electionsFresh = 20 * time.Millisecond

// elections lists the elections for any number of readers: those that ask for as
// many share a query. The queries have one connection of their own, and so delay no
// statement of the election.
type elections struct {
	history History
	reading singleflight.Group
	last    atomic.Pointer[electionsRead]
}

// electionsRead is an answer of the database, which is not changed any more.
type electionsRead struct {
	before uint64
	limit  int
	at     time.Time
	list   []metaclient.Election
}

// read returns at most limit elections before a term, the latest first. The query continues when
// the reader that began it has gone: others may wait for it.
func (e *elections) read(ctx context.Context, before uint64, limit int) ([]metaclient.Election, error) {
	if last := e.last.Load(); last != nil && last.before == before && last.limit == limit && time.Since(last.at) < electionsFresh {
		return last.list, nil
	}
	list, err, _ := e.reading.Do(fmt.Sprint(before, limit), func() (any, error) {
		history, err := e.history.Before(context.WithoutCancel(ctx), before, limit)
		if err != nil {
			return nil, wire.Errorf(wire.CodeUnavailable, "%v", err)
		}
		list := make([]metaclient.Election, len(history))
		for i, x := range history {
			list[i] = metaclient.Election{
				Term: x.Term, Owner: nameOf(x.Owner), Previous: nameOf(x.Previous), Cause: x.Cause,
				LeaderlessMs: x.Leaderless.Milliseconds(), At: shown(x.At),
			}
		}
		e.last.Store(&electionsRead{before: before, limit: limit, at: time.Now(), list: list})
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	return list.([]metaclient.Election), nil
}

// shown returns a time in the precision and zone of the API.
func shown(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// nameOf returns the name in a stored owner.
func nameOf(owner string) string {
	if id, err := conclave.ParseNodeID(owner); err == nil {
		return id.Name
	}
	return owner
}
