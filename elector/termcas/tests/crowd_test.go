package termcas_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// asker asks the leader of a lock.
type asker = func(ctx context.Context, lock string, term uint64, witness string) (alive, known bool)

// crowd is a process with many elections over one Shared.
type crowd struct {
	cable    *electortest.Cable
	db       *conclavesql.DB
	shared   *termcas.Shared
	electors map[string]*elector.Elector
	peer     *crowd // answers the questions at the leaders' ports; nil: no leader confirms
	ask      asker  // if it is not nil, instead of peer
	run      context.Context
	cancel   context.CancelFunc
	group    sync.WaitGroup
	killed   sync.Once

	conns openConns
}

// start starts a process without elections. It is killed when the test ends.
func (b *bench) start(t *testing.T) *crowd {
	p := &crowd{electors: map[string]*elector.Elector{}}
	p.run, p.cancel = context.WithCancel(context.Background())
	p.cable = electortest.NewCable(p.conns.counting(b.Dial))
	var err error
	p.db, err = conclavesql.Open(b.dsn, conclavesql.Options{Dial: p.cable.Dial, Deadline: cmp.Or(b.deadline, b.Lease/6), MaxConns: 2})
	require.NoError(t, err)
	p.shared, err = termcas.NewShared(termcas.Config{DB: p.db, Lock: b.lock})
	require.NoError(t, err)
	t.Cleanup(p.kill)
	return p
}

// join takes part in the elections from number first to before last.
func (p *crowd) join(t *testing.T, b *bench, first, last int) {
	for i := first; i < last; i++ {
		lock := conclavesql.Lock{DataCenter: b.lock.DataCenter, Name: fmt.Sprint("many-", i)}
		ask := func(ctx context.Context, _ string, term uint64, witness string) (alive, known bool) {
			if p.ask != nil {
				return p.ask(ctx, lock.Name, term, witness)
			}
			return p.peer != nil && p.peer.electors[lock.Name].ConfirmLeading(term, witness), true
		}
		strategy, err := p.shared.Strategy(termcas.Config{Lock: lock, Ask: ask})
		require.NoError(t, err)
		p.add(t, elector.Config{ID: conclave.NodeID{Name: "n"}, Strategy: strategy, Lease: b.Lease, HandOver: elector.NoHandOver}, lock.Name)
	}
}

// add runs an election.
func (p *crowd) add(t *testing.T, cfg elector.Config, lock string) {
	e, err := elector.New(cfg)
	require.NoError(t, err)
	p.electors[lock] = e
	p.group.Go(func() { _ = e.Run(p.run) })
}

// kill ends the process as kill -9 does.
func (p *crowd) kill() {
	p.killed.Do(func() {
		p.cable.Cut()
		p.cancel()
		p.group.Wait()
		_ = p.shared.Close()
		_ = p.db.Close()
	})
}

// leads returns how many elections the process leads.
func (p *crowd) leads() (n int) {
	for _, e := range p.electors {
		if _, leading := e.Leading(); leading {
			n++
		}
	}
	return n
}

// won returns how many terms the process has won.
func (p *crowd) won() (n uint64) {
	for _, e := range p.electors {
		n += e.Stats().Won
	}
	return n
}

// until waits until condition returns true, for thirty leases at most.
func (b *bench) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * b.Lease); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(limit), "waited too long for %s", what)
	}
}

// seedMany creates the rows of n locks.
func (b *bench) seedMany(t *testing.T, n int) {
	for i := range n {
		_, err := b.db.Exec(t.Context(), conclavesql.LockSeed, b.lock.DataCenter, fmt.Sprint("many-", i), b.Lease.Milliseconds())
		require.NoError(t, err)
	}
}

// startLeader creates the rows of n locks, and starts a process that leads all of them and
// one that takes part in none yet.
func (b *bench) startLeader(t *testing.T, n int) (p, follower *crowd) {
	b.seedMany(t, n)
	p, follower = b.start(t), b.start(t)
	p.join(t, b, 0, n)
	b.until(t, "the leaders", func() bool { return p.leads() == n })
	return p, follower
}
