package oversell

import (
	"context"
	"time"
)

// Claim is what a way says of itself.
type Claim string

// The claims. A way that breaks the first two has failed.
const (
	Holds       Claim = "holds"        // nothing is oversold
	Oversells   Claim = "oversells"    // it is arranged so that something is
	MayOversell Claim = "may oversell" // whether it does is up to the scheduler
)

// Way is one way of selling.
type Way struct {
	Name    string
	About   string
	Article string // which describes it; "" for none
	Claim   Claim
	// Paused freezes the first buyer between his check and his write until his lock is
	// lost and others have sold half the stock.
	Paused bool

	// few is how many buyers there are at most on a real ZooKeeper, and why says why; 0:
	// all.
	few  int
	why  string
	open func(ctx context.Context, f *floor) (counter, error)
}

// most is how many buyers the way takes; 0: all.
func (w Way) most(cfg Config) int {
	if cfg.ZooKeeper == "" {
		return 0
	}
	return w.few
}

// What the locks are told. Nobody dies in here but the frozen one: the leases of the
// others are longer than any stall of a busy machine.
const (
	longLease  = 15 * time.Second
	shortLease = 1200 * time.Millisecond // of the process that is going to be frozen
)

// lease is a worker's.
func (f *floor) lease(w *worker) time.Duration {
	if f.way.Paused && w.n == 0 {
		return shortLease
	}
	return longLease
}

// Ways are all of them, in the order of the report.
func Ways() []Way {
	return []Way{
		{
			Name: "no-lock", Article: "004", Claim: MayOversell,
			About: "Read, think, write. Who has read the same stock writes the same stock: all but one of those purchases are forgotten.",
			open:  func(context.Context, *floor) (counter, error) { return open{}, nil },
		},
		{
			Name: "row-condition", Claim: Holds,
			About: "No lock: one statement takes one, where stock > 0. What was read before is not believed. If this is all there is to do, do it so.",
			open:  func(context.Context, *floor) (counter, error) { return condition{}, nil },
		},
		{
			Name: "rowlock-article", Article: "001", Claim: Holds,
			About: "Article 001's lock to the letter, and one thread in each process.",
			open:  openArticle(true),
		},
		{
			Name: "rowlock-article-threads", Article: "001", Claim: MayOversell,
			About: "The same, with many threads in each process: its map of held locks is filled once per key, and lets all of them in.",
			open:  openArticle(false),
		},
		{
			Name: "rowlock", Article: "001", Claim: Holds,
			About: "The repaired lock on a unique key: in one process, too, one at a time.",
			open:  openRows(false),
		},
		{
			Name: "zk-single", Article: "004", Claim: Holds, few: 300, why: "the herd of all buyers takes minutes over a network",
			About: "One node of one name is the lock; each release wakes all who wait.",
			open:  openTree(single),
		},
		{
			Name: "zk-mutex", Article: "004", Claim: Holds,
			About: "The line of numbered nodes; each release wakes the next one.",
			open:  openTree(mutex),
		},
		{
			Name: "zk-semaphore", Article: "004", Claim: Holds,
			About: "The same line as a semaphore of one: not reentrant, and without an owner.",
			open:  openTree(semaphore),
		},
		{
			Name: "term", Article: "000", Claim: Holds,
			About: "An election as a lock: the workers lead by turns, and the leader serves ten buyers.",
			open:  openTerms(false),
		},
		{
			Name: "rowlock-paused", Article: "001", Claim: Oversells, Paused: true,
			About: "The holder is frozen between its check and its write, for longer than its lease. It wakes up and writes what it read.",
			open:  openRows(false),
		},
		{
			Name: "rowlock-paused-token", Article: "001", Claim: Holds, Paused: true,
			About: "The same, and the stock's row names the newest holder's token: the late write matches nothing.",
			open:  openRows(true),
		},
		{
			Name: "term-paused", Article: "000", Claim: Oversells, Paused: true,
			About: "The leader is frozen between its check and its write, for longer than its lease. It wakes up and writes what it read.",
			open:  openTerms(false),
		},
		{
			Name: "term-paused-fenced", Article: "000", Claim: Holds, Paused: true,
			About: "The same, and the write is fenced by the term (elector/fence): it is refused.",
			open:  openTerms(true),
		},
	}
}

func names() (list []string) {
	for _, w := range Ways() {
		list = append(list, w.Name)
	}
	return list
}

// open is a counter without a lock.
type open struct{}

func (open) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	return work(ctx, plain(w))
}
func (open) close(context.Context) error        { return nil }
func (open) tally() (wakeUps, requests *uint64) { return nil, nil }

// condition is one without a lock, where the write asks for itself.
type condition struct{ open }

func (condition) serve(ctx context.Context, w *worker, work func(context.Context, hold) error) error {
	h := plain(w)
	h.write = w.shop.take
	return work(ctx, h)
}
