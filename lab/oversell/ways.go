package oversell

import (
	"context"
	"time"
)

// Claim is the expected outcome of a way.
type Claim string

// The expected outcomes. A way that misses one of the first two has failed.
const (
	Holds       Claim = "holds"        // nothing is oversold
	Oversells   Claim = "oversells"    // something is oversold, because it is arranged
	MayOversell Claim = "may oversell" // depends on the scheduler
)

// Way is one way to make the buyers take turns.
type Way struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Article string `json:"article,omitempty"` // the number of the article that describes it, or ""
	Claim   Claim  `json:"claim"`
	// Paused freezes the first buyer between its check and its write until its
	// lease has expired and others have bought half the items.
	Paused bool `json:"-"`

	// few is the maximum number of buyers, for the reason why; 0 if there is none.
	few int
	why string
	// open gives each worker its lock; nil if there is none.
	open func(ctx context.Context, s *sale) error
}

// The leases of the locks. The long one is longer than any stall of a busy
// machine, because only the frozen process is to lose its lock.
const (
	longLease  = 15 * time.Second
	shortLease = 1200 * time.Millisecond // of the process that will be frozen
)

// lease returns a worker's lease.
func (s *sale) lease(w *worker) time.Duration {
	if s.way.Paused && w.n == 0 {
		return shortLease
	}
	return longLease
}

// Ways returns all ways, in the order of the report.
func Ways() []Way {
	return []Way{
		{
			Name: "no-lock", Article: "004", Claim: MayOversell,
			About: "Read, think, write. Buyers that have read the same stock write the same stock: all but one of their purchases are lost.",
		},
		{
			Name: "row-condition", Claim: Holds,
			About: "No lock: one statement takes one item, where stock > 0, whatever was read before. If one row is all that is changed, this is the best way.",
			open: func(_ context.Context, s *sale) error {
				for _, w := range s.workers {
					w.lock = func(context.Context) (hold, error) {
						h := plain(w)
						h.write = w.shop.take
						return h, nil
					}
				}
				return nil
			},
		},
		{
			Name: "rowlock-article", Article: "001", Claim: Holds,
			About: "Article 001's lock as published, with one thread in each process.",
			open:  openArticle(true),
		},
		{
			Name: "rowlock-article-threads", Article: "001", Claim: MayOversell,
			About: "The same with many threads in each process: its map of held locks is filled once per key, and then all threads get the lock.",
			open:  openArticle(false),
		},
		{
			Name: "rowlock", Article: "001", Claim: Holds,
			About: "The repaired lock on a unique key: one thread at a time, also within one process.",
			open:  openRows(false),
		},
		{
			Name: "zk-single", Article: "004", Claim: Holds, few: 300, why: "the thundering herd of all buyers takes minutes",
			About: "One node of one name is the lock; each release wakes all waiters.",
			open:  openTree(single),
		},
		{
			Name: "zk-mutex", Article: "004", Claim: Holds,
			About: "The queue of sequential nodes; each release wakes the next waiter.",
			open:  openTree(mutex),
		},
		{
			Name: "zk-semaphore", Article: "004", Claim: Holds,
			About: "The same queue as a semaphore of one: not reentrant, and without an owner.",
			open:  openTree(semaphore),
		},
		{
			Name: "rowlock-paused", Article: "001", Claim: Oversells, Paused: true,
			About: "The holder is frozen between its check and its write, for longer than its lease. Then it continues and writes what it read.",
			open:  openRows(false),
		},
		{
			Name: "rowlock-paused-token", Article: "001", Claim: Holds, Paused: true,
			About: "The same, with the newest holder's token in the stock's row: the late write changes no row.",
			open:  openRows(true),
		},
	}
}

func names() (list []string) {
	for _, w := range Ways() {
		list = append(list, w.Name)
	}
	return list
}
