package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// A DSN with several hosts is for replicated servers. Two that know nothing of each
// other would each elect a leader.
func TestOpen_HostsThatAreNotReplicatedAreRefused(t *testing.T) {
	first, second := embedded(t, devdb.Config{}), embedded(t, devdb.Config{})
	_, other, _ := strings.Cut(second, "tcp(")
	other, _, _ = strings.Cut(other, ")")
	db := open(t, strings.Replace(first, ")/", ","+other+")/", 1))
	err := db.Check(t.Context(), conclavesql.DefaultLock())
	require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.ErrorContains(t, err, "in no replication group and in no Galera cluster")
	assert.Empty(t, db.Writer())

	pool, err := conclavesql.OpenPool(strings.Replace(first, ")/", ","+other+")/", 1), nil)
	require.NoError(t, err)
	defer pool.Close()
	assert.ErrorContains(t, pool.PingContext(t.Context()), "in no replication group and in no Galera cluster")
}

// usesWriter checks that db reaches the member that accepts writes.
func usesWriter(t *testing.T, db *conclavesql.DB, want *mysqltest.Replica) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := db.Exec(ctx, "UPDATE schema_version SET version = version WHERE id = 1")
		return err == nil && db.Writer() == want.Addr
	}, time.Minute, 100*time.Millisecond, "statements at %s", want.Addr)
}

func TestGroup_ConnectionsFollowThePrimary(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	db := openWith(t, r.DSN, conclavesql.Options{Deadline: time.Second})
	_, lock := migrated(t, r.DSN)
	primary := r.Primary(t)
	usesWriter(t, db, primary)
	assert.Equal(t, conclavesql.GroupReplication, db.Replication())
	assert.Empty(t, db.Advice(), "the settings of the fixture")

	lost := make(chan error, 1)
	pinned, err := db.Pin(t.Context(), func(err error) { lost <- err })
	require.NoError(t, err)
	defer pinned.Close()
	// A wait on the former primary must not last until its end.
	waited := make(chan error, 1)
	go func() {
		var slept int
		waited <- pinned.QueryRow(context.Background(), "SELECT SLEEP(60)", nil, &slept)
	}()
	next := r.Secondaries(t)[0]
	r.Switch(t, next)
	usesWriter(t, db, next)
	assert.Error(t, <-lost)
	assert.ErrorIs(t, <-waited, conclavesql.ErrUnavailable)

	again, err := db.Pin(t.Context(), nil)
	require.NoError(t, err)
	defer again.Close()
	n, err := again.Exec(t.Context(), "UPDATE distribute_lock SET address = 'here' WHERE lock_name = ?", lock.Name)
	require.NoError(t, err)
	assert.Equal(t, int64(1), n)
}

// A user without the right to see the group learns what is missing.
func TestGroup_UserNeedsToSeeTheGroup(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	primary := r.Primary(t)
	primary.Exec(t, "CREATE USER blind@'%' IDENTIFIED BY 'secret'")
	defer primary.Exec(t, "DROP USER blind@'%'")
	_, hosts, _ := strings.Cut(r.DSN, "@")
	_, database, _ := strings.Cut(hosts, "/")
	primary.Exec(t, "GRANT ALL ON "+database+".* TO blind@'%'")
	db := open(t, "blind:secret@"+hosts)
	require.Eventually(t, func() bool { // until the user is on all members
		err := db.Check(t.Context(), conclavesql.DefaultLock())
		return assert.ObjectsAreEqual(true, err != nil) && strings.Contains(err.Error(), "SELECT on performance_schema.replication_group_members")
	}, 30*time.Second, 200*time.Millisecond)
	primary.Exec(t, "GRANT SELECT ON performance_schema.replication_group_members TO blind@'%'")
	require.Eventually(t, func() bool {
		_, err := db.Exec(t.Context(), "SELECT 1")
		return err == nil
	}, 30*time.Second, 200*time.Millisecond)
}

// What EnsureUser grants is enough for a DSN with all members.
func TestGroup_EnsureUserGrantsWhatAMetaNeeds(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	_, hosts, _ := strings.Cut(r.DSN, "@")
	admin, lock := migrated(t, r.DSN)
	dsn := "runs:secret@" + hosts
	require.NoError(t, admin.EnsureUser(t.Context(), dsn))
	defer r.Primary(t).Exec(t, "DROP USER runs@'%'")
	db := open(t, dsn)
	require.Eventually(t, func() bool { return db.Check(t.Context(), lock) == nil }, 30*time.Second, 200*time.Millisecond)
}

// settled writes one decision, and finds out what became of it. It returns the decision
// that is in the row: next, or an earlier attempt at the same sequence.
func settled(t *testing.T, store *conclavesql.StateStore, fence conclavesql.Fence, old conclavesql.State, body string) conclavesql.State {
	t.Helper()
	for try := 0; ; try++ {
		next := conclavesql.State{Kind: old.Kind, Body: body, Term: fence.Term, Seq: old.Seq + 1, Nonce: fmt.Sprintf("%d.%d", old.Seq+1, try)}
		outcome, err := store.Write(t.Context(), fence, old, next)
		present := next
		for began := time.Now(); outcome == conclavesql.Unknown; {
			require.Less(t, time.Since(began), time.Minute, "no answer: %v", err)
			outcome, present, err = store.Settle(t.Context(), fence, old, next)
		}
		switch outcome {
		case conclavesql.Written:
			return present
		case conclavesql.Conflict: // an earlier attempt was applied late
			require.Equal(t, next.Seq, present.Seq)
			require.Equal(t, body, present.Body)
			return present
		case conclavesql.Unwritten:
		default:
			require.Equal(t, conclavesql.Written, outcome)
		}
	}
}

// onReplicas runs a test on each kind of replicated servers, with a deadline as with a lease of
// three seconds.
func onReplicas(t *testing.T, test func(t *testing.T, r *mysqltest.Replicas, db *conclavesql.DB, lock conclavesql.Lock)) {
	mysqltest.OnReplicas(t, func(t *testing.T, r *mysqltest.Replicas) {
		db := openWith(t, r.DSN, conclavesql.Options{Deadline: 500 * time.Millisecond})
		lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
		require.NoError(t, db.MigrateWithin(t.Context(), lock, time.Minute, func(time.Duration, error) {}))
		test(t, r, db, lock)
	})
}

// Decisions are written one after the other while the writer is killed at a random
// moment. Each that was acknowledged is in the row ever after, and each without an answer
// is settled as what it is.
func TestReplicas_WriterKilledInAStateWrite(t *testing.T) {
	onReplicas(t, func(t *testing.T, r *mysqltest.Replicas, db *conclavesql.DB, lock conclavesql.Lock) {
		before := open(t, r.DSN) // without the short deadline, which a busy machine may exceed
		fence := elect(t, before, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		old := read(t, before, lock, conclavesql.KindTable)
		var killing sync.WaitGroup
		defer killing.Wait()
		var start atomic.Pointer[func()]
		writer, after := r.Primary(t), time.Duration(rand.IntN(1000))*time.Millisecond
		killing.Go(func() {
			time.Sleep(after)
			again := writer.Kill(t)
			start.Store(&again)
		})
		longest, acknowledged := time.Duration(0), 0
		for more := 20; more > 0; acknowledged++ {
			began := time.Now()
			now := settled(t, store, fence, old, fmt.Sprintf(`{"n":%d}`, old.Seq+1))
			longest = max(longest, time.Since(began))
			require.Equal(t, old.Seq+1, now.Seq)
			old = now
			if start.Load() != nil && db.Writer() != writer.Addr {
				more--
			}
		}
		t.Logf("figure: %d writes, the longest took %.1f s", acknowledged, longest.Seconds())
		(*start.Load())()
		r.Settle(t)
		for _, m := range r.Members {
			assert.Eventually(t, func() bool {
				return m.Value("SELECT CONCAT(seq, ' ', nonce) FROM "+r.Database()+".cluster_state WHERE kind = 'table' AND lock_name = '"+lock.Name+"'") == fmt.Sprintf("%d %s", old.Seq, old.Nonce)
			}, 20*time.Second, 100*time.Millisecond, "the newest decision at %s", m.Addr)
		}
	})
}

// A leader seals while the writer is killed. When the seal is acknowledged, or found to be
// applied, every decision is of the new term, and none of the old term is written any more.
func TestReplicas_WriterKilledInASeal(t *testing.T) {
	onReplicas(t, func(t *testing.T, r *mysqltest.Replicas, db *conclavesql.DB, lock conclavesql.Lock) {
		before := open(t, r.DSN)
		former := elect(t, before, lock, "a@1", 1)
		store := conclavesql.NewStateStore(db, lock)
		old := settled(t, store, former, read(t, before, lock, conclavesql.KindBlacklist), `["x"]`)
		fence := elect(t, before, lock, "b@1", 2)
		writer, late := r.Primary(t), time.Duration(rand.IntN(150))*time.Millisecond
		var killing sync.WaitGroup
		killing.Go(func() { writer.Kill(t) })
		time.Sleep(late)
		began := time.Now()
		for {
			outcome, err := store.Seal(t.Context(), fence, 1, "seal")
			if outcome == conclavesql.Written || outcome == conclavesql.Conflict {
				break
			}
			require.Equal(t, conclavesql.Unknown, outcome)
			require.Less(t, time.Since(began), time.Minute, "%v", err)
		}
		killing.Wait()
		t.Logf("figure: sealed after %.1f s", time.Since(began).Seconds())
		var states map[conclavesql.Kind]conclavesql.State
		require.Eventually(t, func() (found bool) {
			var err error
			states, err = store.Read(t.Context())
			return err == nil
		}, time.Minute, 50*time.Millisecond)
		for kind, s := range states {
			assert.Equal(t, uint64(2), s.Term, "%s", kind)
		}
		assert.Equal(t, `["x"]`, states[conclavesql.KindBlacklist].Body, "what was acknowledged is sealed")
		require.Eventually(t, func() bool {
			outcome, _ := store.Write(t.Context(), former, old, conclavesql.State{Body: `[]`, Seq: old.Seq + 1, Nonce: "late"})
			assert.NotEqual(t, conclavesql.Written, outcome)
			return outcome == conclavesql.Deposed
		}, time.Minute, 50*time.Millisecond, "a write of the former term")
	})
}

// A cluster has no primary: the first node of the DSN that takes part is the writer, and
// becomes it again when it is back.
func TestGalera_FirstNodeOfTheDSNIsTheWriter(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.Galera)
	migrated(t, r.DSN)
	db := openWith(t, r.DSN, conclavesql.Options{Deadline: 500 * time.Millisecond})
	usesWriter(t, db, r.Members[0])
	assert.Equal(t, conclavesql.Galera, db.Replication())
	var wait string
	require.NoError(t, db.QueryRow(t.Context(), "SELECT @@wsrep_sync_wait", nil, &wait))
	assert.Equal(t, "7", wait)
	pool, err := conclavesql.OpenPool(r.DSN, func(c *mysql.Config) { c.Timeout = time.Second })
	require.NoError(t, err)
	defer pool.Close()
	node := func() (node string) {
		_ = pool.QueryRowContext(t.Context(), "SELECT @@wsrep_node_name").Scan(&node)
		return node
	}
	require.Equal(t, "db1", node())
	start := r.Members[0].Kill(t)
	usesWriter(t, db, r.Members[1])
	require.Eventually(t, func() bool { return node() == "db2" }, time.Minute, 100*time.Millisecond, "a program's own pool")
	start()
	r.Settle(t)
	usesWriter(t, db, r.Members[0])
}

// A node that an operator has made read-only is not written to, although it takes part.
func TestGalera_ReadOnlyNodeIsNotTheWriter(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.Galera)
	db := openWith(t, r.DSN, conclavesql.Options{Deadline: 500 * time.Millisecond})
	require.NoError(t, db.Migrate(t.Context(), conclavesql.Lock{DataCenter: "test", Name: t.Name()}))
	usesWriter(t, db, r.Members[0])
	r.Members[0].Exec(t, "SET GLOBAL read_only = ON")
	defer r.Members[0].Exec(t, "SET GLOBAL read_only = OFF")
	usesWriter(t, db, r.Members[1])
}

// Two nodes of a cluster accept writes at once, and each has its own row locks. Of two
// swaps after the same read one wins nevertheless: the other is not certified.
func TestGalera_SwapsOnTwoNodesHaveOneWinnerEach(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.Galera)
	db := openWith(t, r.DSN, conclavesql.Options{Deadline: 5 * time.Second})
	lock := conclavesql.Lock{DataCenter: "test", Name: "two nodes"}
	require.NoError(t, db.Migrate(t.Context(), lock))
	var nodes []*conclavesql.DB
	for _, m := range r.Members {
		nodes = append(nodes, openWith(t, r.OnlyDSN(m), conclavesql.Options{Deadline: 5 * time.Second}))
	}
	const rounds = 200
	conflicts := 0
	for term := range uint64(rounds) {
		var won, unknown atomic.Int64
		var swapping sync.WaitGroup
		for i, node := range nodes {
			swapping.Go(func() {
				n, err := node.Exec(t.Context(), "UPDATE distribute_lock SET owner = ?, term = ? WHERE lock_name = ? AND term = ?",
					fmt.Sprintf("n%d@1", i), term+1, lock.Name, term)
				if err != nil {
					unknown.Add(1)
				}
				won.Add(n)
			})
		}
		swapping.Wait()
		conflicts += int(unknown.Load())
		require.LessOrEqual(t, won.Load(), int64(1), "term %d has two owners", term+1)
		var now uint64
		require.NoError(t, db.QueryRow(t.Context(), "SELECT term FROM distribute_lock WHERE lock_name = ?", []any{lock.Name}, &now))
		if won.Load() == 0 { // certified nowhere: the next round is for the same term
			require.Equal(t, term, now)
			_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET term = ? WHERE lock_name = ?", term+1, lock.Name)
			require.NoError(t, err)
		}
	}
	t.Logf("figure: %d rounds on three nodes, none with two winners, %d statements ended with an error", rounds, conflicts)
}
