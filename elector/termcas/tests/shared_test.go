package termcas_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// TestShared_Conformance runs the suite on nodes that each have a Shared with one election.
func TestShared_Conformance(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		t.Run(string(takeover), func(t *testing.T) {
			t.Parallel()
			world := func(b *bench) electortest.World {
				b.shared = true
				return b.World
			}
			t.Run(string(mysqltest.Embedded), func(t *testing.T) {
				electortest.Run(t, true, func(t *testing.T) electortest.World { return world(inBubble(t, takeover)) })
			})
			mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
				electortest.Run(t, false, func(t *testing.T) electortest.World { return world(onServer(t, s, takeover)) })
			})
		})
	}
}

var elections = flag.Int("elections", 200, "how many elections TestShared_ThousandElections has on the embedded server")

// A thousand elections of two processes, each of which leads half of them, need at most
// four connections and two or three statements a beat in each process: one that renews,
// one that reads, and now and then one that waits for the other process. When one of the
// processes is killed, the other leads all at once and loses no term meanwhile. The
// embedded server plays 200 in seconds; -elections 1000 takes minutes.
func TestShared_ThousandElections(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		n, beats, statements, soon := *elections, 8, 3.0, b.soon()
		if !b.Bubble {
			b.Lease = 6 * time.Second              // two processes, a server and other tests have the machine
			n, statements, soon = 1000, 4, b.Lease // some Rounds come late
		}
		b.seedMany(t, n)
		first, second := b.start(t), b.start(t)
		first.join(t, b, 0, n/2)
		second.join(t, b, n/2, n)
		b.until(t, "the first leaders", func() bool { return first.leads() == n/2 && second.leads() == n/2 })
		first.join(t, b, n/2, n)
		second.join(t, b, 0, n/2)
		time.Sleep(2 * b.Lease)

		beat := b.Lease / 3
		before := [2]uint64{first.db.Statements(), second.db.Statements()}
		time.Sleep(time.Duration(beats) * beat)
		for i, p := range []*crowd{first, second} {
			each := float64(p.db.Statements()-before[i]) / float64(beats)
			t.Logf("%d elections: %.2f statements a beat, at most %d connections", n, each, p.conns.most.Load())
			assert.LessOrEqual(t, each, statements, "statements a beat")
			assert.LessOrEqual(t, p.conns.most.Load(), int64(4), "connections")
			assert.Equal(t, uint64(n/2), p.won(), "no election without a fault")
		}

		began := time.Now()
		first.kill()
		b.until(t, "the other process to lead all", func() bool { return second.leads() == n })
		t.Logf("all are led %v after the kill", time.Since(began))
		assert.Less(t, time.Since(began), soon)
		assert.Equal(t, uint64(n), second.won(), "it has won the others' terms and lost none")
		assert.LessOrEqual(t, second.conns.most.Load(), int64(4), "connections")
	})
}

// When the witness connection is lost, all leaders of the process are suspended, and no
// term is lost, although the other process acquires the witness.
func TestShared_LostConnectionCostsNoTerm(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 20
		p, follower := b.startLeader(t, n)
		follower.peer = p
		follower.join(t, b, 0, n)
		time.Sleep(b.Lease)
		p.cable.Cut()
		b.until(t, "all to be suspended", func() bool { return p.leads() == 0 })
		for _, e := range p.electors {
			assert.Equal(t, elector.Suspended, e.Status().State)
		}
		p.cable.Mend()
		b.until(t, "all to lead again", func() bool { return p.leads() == n })
		time.Sleep(2 * b.Lease)
		assert.Equal(t, n, p.leads())
		assert.Equal(t, uint64(n), p.won()+follower.won(), "no new terms")
	})
}

// The leaders of a process are not asked all at once, and once one of them has confirmed
// its term, silence of the others is not taken for their end.
func TestShared_SilenceBesideAConfirmationIsNoEnd(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 100
		p, follower := b.startLeader(t, n)
		var asked, asking, most atomic.Int64
		follower.ask = func(ctx context.Context, lock string, term uint64, witness string) (alive, known bool) {
			first, now := asked.Add(1) == 1, asking.Add(1)
			defer asking.Add(-1)
			most.Store(max(most.Load(), now))
			if first {
				time.Sleep(time.Millisecond)
				return p.electors[lock].ConfirmLeading(term, witness), true
			}
			<-ctx.Done()
			return false, false
		}
		follower.join(t, b, 0, n)
		time.Sleep(b.Lease)
		p.cable.Cut()
		time.Sleep(b.Lease / 5) // longer than all questions take
		p.cable.Mend()
		b.until(t, "all to lead again", func() bool { return p.leads() == n })
		assert.GreaterOrEqual(t, asked.Load(), int64(n))
		assert.LessOrEqual(t, most.Load(), int64(32), "questions at the same time")
		assert.Equal(t, uint64(n), p.won()+follower.won(), "no new terms")
	})
}

// A server that refuses writes, such as a former primary, is left for the one to which its
// address leads now: by the leaders, and by the candidates that still read the old rows.
func TestShared_LeavesAReadOnlyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var demoted atomic.Bool
		b := onEmbedded(t, termcas.Witness, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			if demoted.Load() && strings.HasPrefix(query, "UPDATE") {
				return nil, devdb.Refusal(1290, "the server is running with the --read-only option")
			}
			return nil, nil
		}})
		promoted, first := inBubble(t, termcas.Witness), b.Dial
		b.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if demoted.Load() {
				return promoted.Dial(ctx, network, addr)
			}
			return first(ctx, network, addr)
		}
		const n = 5
		b.seedMany(t, n)
		promoted.seedMany(t, n)
		p, follower := b.start(t), b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the leaders", func() bool { return p.leads() == n })
		follower.join(t, b, 0, n)
		time.Sleep(2 * b.Lease)
		demoted.Store(true)
		b.until(t, "leaders on the new primary", func() bool {
			var owned int
			require.NoError(t, promoted.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM distribute_lock WHERE owner <> '' AND term > 1", nil, &owned))
			return owned == n && p.leads()+follower.leads() == n
		})
		for _, process := range []*crowd{p, follower} {
			b.until(t, "both to see the new terms", func() bool {
				for _, e := range process.electors {
					if e.Current().Number < 2 {
						return false
					}
				}
				return true
			})
		}
	})
}

// A row that names another leader ends that term, and no other of the same statement.
func TestShared_OneLostTermOfMany(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 20
		b.seedMany(t, n)
		p := b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the leaders", func() bool { return p.leads() == n })
		changed, err := b.db.Exec(t.Context(),
			"UPDATE distribute_lock SET owner = 'other@1', term = term + 1, gmt_modified = UTC_TIMESTAMP(3) WHERE lock_name = 'many-7'")
		require.NoError(t, err)
		require.Equal(t, int64(1), changed)
		b.until(t, "the one to be deposed", func() bool { return p.leads() == n-1 })
		assert.Equal(t, "other", p.electors["many-7"].Current().Leader.Name)
		time.Sleep(b.Lease / 2)
		assert.Equal(t, n-1, p.leads(), "the lease of the other has not expired")
		b.until(t, "its lease", func() bool { return p.leads() == n })
		assert.Equal(t, uint64(n+1), p.won())
	})
}

// A client that has locked rows costs their terms and no other: not when it has locked
// one, and not when it has locked many, which are not renewed one by one.
func TestShared_LockedRowsCostOnlyTheirTerms(t *testing.T) {
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
		b := onServer(t, s, termcas.Witness)
		const n = 60
		b.seedMany(t, n)
		p := b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the leaders", func() bool { return p.leads() == n })
		pool, err := conclavesql.OpenPool(b.dsn, nil)
		require.NoError(t, err)
		defer pool.Close()
		for _, locked := range []int{1, 40} {
			won := p.won()
			tx, err := pool.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			for i := range locked {
				var id int
				require.NoError(t, tx.QueryRow("SELECT id FROM distribute_lock WHERE data_center = ? AND lock_name = ? FOR UPDATE", b.lock.DataCenter, fmt.Sprint("many-", i)).Scan(&id))
			}
			before := p.db.Statements()
			for limit := time.Now().Add(3 * b.Lease); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
				require.GreaterOrEqual(t, p.leads(), n-locked)
			}
			each := float64(p.db.Statements()-before) / 9
			t.Logf("%d of %d rows are locked: %.1f statements a beat, at most %d connections", locked, n, each, p.conns.most.Load())
			require.NoError(t, tx.Rollback())
			assert.Less(t, each, 120.0, "not one by one: each of 40 elections tries four times a beat, with two statements or more")
			b.until(t, "all to lead", func() bool { return p.leads() == n })
			assert.LessOrEqual(t, p.won(), won+uint64(locked))
			assert.LessOrEqual(t, p.conns.most.Load(), int64(4), "connections")
		}
	})
}

// The renewal of a row that another client has locked, if it is executed late, changes
// nothing after the next beat, and leaves the witness.
func TestShared_LateRenewalOfALockedRowMatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		b := onEmbedded(t, termcas.Witness, devdb.Config{Rewrite: func(query string) string {
			if strings.Contains(query, "SKIP LOCKED") && locked.CompareAndSwap(true, false) {
				return strings.Replace(query, "LIMIT 1000", "LIMIT 0", 1) // the row is left out
			}
			return query
		}})
		b.shared = true
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		n, _ := c.Leader()
		deliver := n.Cable.Delay("witness_lock <=>")
		locked.Store(true)
		c.Until("a renewal without an answer", func() bool { return n.Stats().Failed > 0 })
		beat := b.row(t).beat
		c.Until("the next beat", func() bool { return b.row(t).beat > beat })
		before := b.row(t)
		deliver()
		n.Cable.Delivered()
		assert.Equal(t, before, b.row(t))
		c.Until("some beats", func() bool { return n.Current().Beat > before.beat+3 })
		assert.Len(t, c.Ledger(), 1)
	})
}

// Rows that fenced writes have locked whenever the statement for many comes keep their
// terms and their witness.
func TestShared_BusyRowsKeepTheirTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onEmbedded(t, termcas.Witness, devdb.Config{Rewrite: func(query string) string {
			if strings.Contains(query, "l.term_duration + 1") {
				return strings.Replace(query, "LIMIT 1000", "LIMIT 0", 1)
			}
			return query
		}, Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			if strings.Contains(query, "witness_lock <=>") {
				time.Sleep(5 * time.Millisecond)
			}
			return nil, nil
		}})
		const n = 60
		p, follower := b.startLeader(t, n)
		follower.join(t, b, 0, n)
		time.Sleep(4 * b.Lease)
		assert.Equal(t, n, p.leads())
		assert.Equal(t, uint64(n), p.won())
		began := time.Now()
		p.kill()
		b.until(t, "the other process to lead all", func() bool { return follower.leads() == n })
		assert.Less(t, time.Since(began), b.soon())
	})
}

// A row that the fenced writes of a former leader have locked whenever the statement for
// many comes is won all the same.
func TestShared_BusyRowIsWon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onEmbedded(t, termcas.Witness, devdb.Config{Rewrite: func(query string) string {
			if strings.Contains(query, "GREATEST(l.term") {
				return strings.Replace(query, "LIMIT 1000", "LIMIT 0", 1)
			}
			return query
		}})
		b.seedMany(t, 1)
		_, err := b.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'other@1', term = 4 WHERE lock_name = 'many-0'")
		require.NoError(t, err)
		began, p := time.Now(), b.start(t)
		p.join(t, b, 0, 1)
		b.until(t, "the leader", func() bool { return p.leads() == 1 })
		assert.Less(t, time.Since(began), 2*b.Lease)
		assert.Equal(t, uint64(5), p.electors["many-0"].Current().Number)
		time.Sleep(b.Lease)
		assert.Equal(t, 1, p.leads())
	})
}

// The row of a dead leader that no candidate replaces does not keep a process from waiting
// for a witness that is held.
func TestShared_WaitsForNoDeadLeader(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 5
		p, follower := b.startLeader(t, n)
		follower.join(t, b, 0, n)
		b.exec(t, "UPDATE distribute_lock SET owner = 'dead@1', term = 1, witness_lock = 'cv:dead', witness_conn = 1000000 WHERE data_center = ? AND lock_name = ?")
		strategy, err := follower.shared.Strategy(termcas.Config{Lock: b.lock})
		require.NoError(t, err)
		follower.add(t, elector.Config{ID: conclave.NodeID{Name: "n"}, Observer: true, Strategy: strategy, Lease: b.Lease}, b.lock.Name)
		time.Sleep(3 * b.Lease)
		began := time.Now()
		p.kill()
		b.until(t, "the other process to lead", func() bool { return follower.leads() == n })
		assert.Less(t, time.Since(began), b.soon())
	})
}

// A row with a value that cannot be read costs its own election and no other.
func TestShared_UnreadableRowCostsItsOwnElection(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 5
		b.seedMany(t, n)
		_, err := b.db.Exec(t.Context(), "UPDATE distribute_lock SET resigned = 2 WHERE lock_name = 'many-0'")
		require.NoError(t, err)
		p := b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the other leaders", func() bool { return p.leads() == n-1 })
		for limit := time.Now().Add(3 * b.Lease); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
			require.Equal(t, n-1, p.leads())
		}
		assert.ErrorContains(t, p.electors["many-0"].Status().Err, "resigned")
		_, err = b.db.Exec(t.Context(), "UPDATE distribute_lock SET resigned = 1 WHERE lock_name = 'many-0'")
		require.NoError(t, err)
		b.until(t, "all leaders", func() bool { return p.leads() == n })
	})
}

// A Shared does not use a server of which it cannot be told whether its binary log has
// statements as text.
func TestShared_UnknownBinaryLogIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		refuses.Store(true)
		b := onEmbedded(t, termcas.Witness, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			if refuses.Load() && strings.Contains(query, "@@binlog_format") {
				return nil, devdb.Refusal(1317, "interrupted")
			}
			return nil, nil
		}})
		b.seedMany(t, 1)
		p := b.start(t)
		p.join(t, b, 0, 1)
		time.Sleep(3 * b.Lease)
		assert.Zero(t, p.won())
		assert.ErrorContains(t, p.electors["many-0"].Status().Err, "binary log")
		refuses.Store(false)
		b.until(t, "the leader", func() bool { return p.leads() == 1 })
	})
}

// If the connection is lost between two statements of a batch, what the first has changed
// is no win or renewal yet: with several hosts it is not known whether the others have it.
func TestShared_NothingCountsOfABatchWhoseConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *crowd
		var tries, swaps atomic.Int64
		locked := func() bool { return tries.Load() < 2 } // so that both elections wait for others before they try again
		b := onEmbedded(t, termcas.Witness, devdb.Config{Rewrite: func(query string) string {
			if locked() {
				return strings.Replace(query, "LIMIT 1000", "LIMIT 0", 1)
			}
			return query
		}, Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			return func(uint64, error) {
				if strings.Contains(query, "GREATEST(l.term") && !locked() && swaps.Add(1) == 1 {
					p.cable.LoseReply("GREATEST(l.term")
				}
			}, nil
		}})
		b.seedMany(t, 2) // one is vacant, one has the node's own name: two reasons, and so two statements
		_, err := b.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'n@1', term = 4 WHERE lock_name = 'many-1'")
		require.NoError(t, err)
		p = b.start(t)
		var won atomic.Int64 // as the answers of the statements have it
		for i := range 2 {
			lock := conclavesql.Lock{DataCenter: b.lock.DataCenter, Name: fmt.Sprint("many-", i)}
			strategy, err := p.shared.Strategy(termcas.Config{Lock: lock, Trace: func(event elector.Event) {
				if event.Kind == elector.EventSwapped {
					tries.Add(1)
					won.Add(int64(event.Rows))
				}
			}})
			require.NoError(t, err)
			p.add(t, elector.Config{ID: conclave.NodeID{Name: "n", Incarnation: "1"}, Strategy: strategy, Lease: b.Lease}, lock.Name)
		}
		b.until(t, "the leaders", func() bool { return p.leads() == 2 })
		assert.Equal(t, int64(2), swaps.Load())
		assert.Equal(t, 1, p.cable.Lost())
		assert.Zero(t, won.Load())
		assert.Equal(t, uint64(1), p.electors["many-0"].Current().Number, "the wins were executed")
		assert.Equal(t, uint64(5), p.electors["many-1"].Current().Number)
	})
}

// Elections wait for their turn before they use the pool, whose statements have a deadline:
// to create rows, to read who led before, and to give up the terms of an observer.
func TestShared_TurnsAtThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onEmbedded(t, termcas.Witness, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			if strings.Contains(query, "INSERT IGNORE INTO distribute_lock") || strings.HasPrefix(query, "SELECT") && strings.Contains(query, "FROM election_history") || strings.Contains(query, "resigned = 1, gmt") {
				time.Sleep(100 * time.Millisecond)
			}
			return nil, nil
		}})
		const n = 20
		b.deadline = 200 * time.Millisecond
		p, next := b.start(t), b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the leaders", func() bool { return p.leads() == n })
		for _, e := range p.electors {
			assert.Zero(t, e.Stats().Failed)
		}
		recorded := func() (elections, named int) {
			require.NoError(t, b.db.QueryRow(t.Context(), "SELECT COUNT(*), SUM(previous <> '') FROM election_history", nil, &elections, &named))
			return elections, named
		}
		b.until(t, "the history", func() bool { all, _ := recorded(); return all == n })
		for _, e := range p.electors {
			require.NoError(t, e.Resign(t.Context()))
		}
		p.kill()
		next.join(t, b, 0, n)
		b.until(t, "the history", func() bool { all, _ := recorded(); return all == 2*n })
		_, named := recorded()
		assert.Equal(t, n, named, "the former leader")
		next.kill()

		_, err := b.db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'n@1', resigned = 0 WHERE lock_name LIKE 'many-%'")
		require.NoError(t, err)
		observer := b.start(t)
		for i := range n {
			lock := conclavesql.Lock{DataCenter: b.lock.DataCenter, Name: fmt.Sprint("many-", i)}
			strategy, err := observer.shared.Strategy(termcas.Config{Lock: lock})
			require.NoError(t, err)
			observer.add(t, elector.Config{ID: conclave.NodeID{Name: "n", Incarnation: "1"}, Observer: true, Strategy: strategy, Lease: b.Lease}, lock.Name)
		}
		b.until(t, "the terms to be given up", func() bool {
			var left int
			require.NoError(t, b.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM distribute_lock WHERE owner = 'n@1'", nil, &left))
			return left == 0
		})
		for _, e := range observer.electors {
			assert.Zero(t, e.Stats().Failed)
		}
	})
}

// A candidate that has tried often to win a row that another client has locked is as fast
// as any other when that row has changed.
func TestShared_TriesOfAnotherRowAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		locked.Store(true)
		b := onEmbedded(t, termcas.Witness, devdb.Config{Rewrite: func(query string) string {
			if locked.Load() {
				query = strings.Replace(query, "AND (resigned = 1 OR owner = '')", "AND 1 = 0", 1) // on the pool
				return strings.Replace(query, "LIMIT 1000", "LIMIT 0", 1)
			}
			return query
		}})
		b.seedMany(t, 1)
		p := b.start(t)
		p.join(t, b, 0, 1)
		time.Sleep(b.Lease)
		change := func(set string) {
			_, err := b.db.Exec(t.Context(), "UPDATE distribute_lock SET gmt_modified = UTC_TIMESTAMP(3), "+set+" WHERE lock_name = 'many-0'")
			require.NoError(t, err)
		}
		e := p.electors["many-0"]
		change("owner = 'other@1', term = 1")
		b.until(t, "the follower to read it", func() bool { return e.Current().Number == 1 })
		locked.Store(false)
		time.Sleep(b.Lease / 12) // not at a beat
		change("owner = '', resigned = 1")
		began := time.Now()
		e.Wake()
		b.until(t, "the leader", func() bool { return p.leads() == 1 })
		assert.Less(t, time.Since(began), b.Lease/3/16)
	})
}

// A process that waits first, and takes part in few of the elections, does not delay those
// of the next that waits.
func TestShared_OffersALockUntilNoRowNamesIt(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		const n = 20
		b.seedMany(t, n)
		p, few, all := b.start(t), b.start(t), b.start(t)
		p.join(t, b, 0, n)
		b.until(t, "the leaders", func() bool { return p.leads() == n })
		few.join(t, b, 0, 1)
		time.Sleep(b.Lease)
		all.join(t, b, 0, n)
		time.Sleep(b.Lease)
		began := time.Now()
		p.kill()
		b.until(t, "the others to lead all", func() bool { return few.leads()+all.leads() == n })
		assert.Equal(t, 1, few.leads(), "it waited first")
		assert.Less(t, time.Since(began), b.soon())
	})
}

// A process that leads nothing reads although the answers take longer than half a beat, and
// so wins at the lease.
func TestShared_SlowReadsAreNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Int64
		b := onEmbedded(t, termcas.Lease, devdb.Config{Around: func(_ net.Addr, query string) (func(uint64, error), error) {
			if strings.HasPrefix(query, "SELECT lock_name") {
				time.Sleep(time.Duration(slow.Load()))
			}
			return nil, nil
		}})
		const n = 20
		p, follower := b.startLeader(t, n)
		slow.Store(int64(b.Lease / 5)) // a beat is a third
		follower.join(t, b, 0, n)
		time.Sleep(4 * b.Lease)
		assert.Equal(t, uint64(n), p.won(), "no term is lost")
		began := time.Now()
		p.kill()
		b.until(t, "the follower to lead all", func() bool { return follower.leads() == n })
		assert.Less(t, time.Since(began), 2*b.Lease)
	})
}

// A leader whose row was deleted is deposed at its next beat.
func TestShared_DeletedRowDeposes(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.shared = true
		c := electortest.NewCluster(t, b.World, 1)
		defer c.Stop()
		leader, term := c.Leader()
		c.Until("beats", func() bool { return leader.Current().Beat > 2 })
		b.exec(t, "DELETE FROM distribute_lock WHERE data_center = ? AND lock_name = ?")
		began := time.Now()
		c.Until("the leader to be deposed", func() bool { _, leading := leader.Leading(); return !leading })
		assert.LessOrEqual(t, time.Since(began), b.Lease/3+b.Lease/20)
		c.LeaderAfter(term.Number)
	})
}

// A leader whose connection is lost, but which confirms at its port that it leads, is
// replaced when its trust has ended.
func TestShared_AliveLeaderIsNotDeposed(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.shared = true
		c := electortest.NewCluster(t, b.World, 3)
		defer c.Stop()
		leader, term := c.Leader()
		time.Sleep(b.Lease)
		began := time.Now()
		leader.Cable.Cut()
		_, next := c.LeaderAfter(term.Number)
		assert.GreaterOrEqual(t, time.Since(began), b.Lease-b.Lease/3-b.Lease/20)
		assert.Contains(t, []elector.Cause{elector.CauseExpired, elector.CauseKilled}, next.Cause)
		assert.NotZero(t, leader.Stats().Alive, "the leader was asked at its port")
	})
}

// A leader that has not noticed that the server has ended its connection learns of it from
// the question, and keeps its term.
func TestShared_QuestionSuspendsLeaderWithHalfOpenConnection(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.shared = true
		c := electortest.NewCluster(t, b.World, 2)
		defer c.Stop()
		leader, term := c.Leader()
		time.Sleep(b.Lease)
		beat := leader.Current().Beat
		c.Until("a beat", func() bool { return leader.Current().Beat > beat })
		beat = leader.Current().Beat
		began := time.Now()
		leader.Cable.HalfOpen()
		c.Until("the leader to publish another witness", func() bool { return leader.Current().Beat > beat })
		assert.Less(t, time.Since(began), max(b.Lease/4, b.soon()), "the next beat does not hang until trust ends")
		now, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, now.Number)
	})
}

// A killed leader is replaced at once, also the one that has just replaced another.
func TestShared_KilledLeaderIsReplacedAtOnce(t *testing.T) {
	everywhere(t, termcas.Witness, func(t *testing.T, b *bench) {
		b.shared = true
		c := electortest.NewCluster(t, b.World, 4)
		defer c.Stop()
		leader, term := c.Leader()
		for range 2 {
			time.Sleep(b.Lease)
			began := time.Now()
			leader.Kill()
			next, nextTerm := c.LeaderAfter(term.Number)
			assert.Less(t, time.Since(began), b.soon())
			assert.Equal(t, elector.CauseKilled, nextTerm.Cause)
			assert.Equal(t, leader.ID, nextTerm.Previous)
			leader, term = next, nextTerm
		}
	})
}

// Replicas that repeat statements as text would leave out other rows than the server: a
// Shared does not use it, with neither takeover.
func TestShared_RefusesStatementsAsText(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		t.Run(string(takeover), func(t *testing.T) {
			bubble(t, takeover, func(t *testing.T, b *bench) {
				b.shared = true
				c := electortest.NewCluster(t, b.World, 1, asObserver)
				defer c.Stop()
				n := c.Nodes()[0]
				n.Cable.Garble("@@log_bin AS log_bin, @@binlog_format AS", "1 AS log_bin, 'STATEMENT'             AS")
				n.Cable.Break()
				c.Until("the error", func() bool {
					return n.Status().Err != nil && strings.Contains(n.Status().Err.Error(), "binlog_format is STATEMENT")
				})
				require.NoError(t, n.JoinElection(t.Context()))
				time.Sleep(2 * b.Lease)
				assert.Zero(t, b.row(t).term)
				n.Cable.Garble("", "")
				c.Leader()
				assert.Equal(t, takeover == termcas.Witness, b.row(t).conn.Valid)
			})
		})
	}
}

// A lock has one election in a process, and all locks are of one data center.
func TestShared_StrategyRefuses(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		p := b.start(t)
		s, err := p.shared.Strategy(termcas.Config{Lock: b.lock})
		require.NoError(t, err)
		_, err = p.shared.Strategy(termcas.Config{Lock: b.lock})
		assert.ErrorContains(t, err, "has an election in this process")
		_, err = p.shared.Strategy(termcas.Config{Lock: conclavesql.Lock{DataCenter: "elsewhere", Name: "l"}})
		assert.ErrorContains(t, err, "is not of the data center test")
		require.NoError(t, s.Close())
		_, err = p.shared.Strategy(termcas.Config{Lock: b.lock})
		assert.NoError(t, err)
	})
}
