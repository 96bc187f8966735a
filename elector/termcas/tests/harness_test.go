package termcas_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
)

func TestMain(m *testing.M) {
	switch { // this test binary, run as a separate process
	case os.Getenv(candidateEnv) != "":
		candidate()
	case os.Getenv(manyEnv) != "":
		manyElections()
	case os.Getenv(databaseEnv) != "":
		database()
	case os.Getenv(reporterEnv) != "":
		reporter()
	default:
		mysqltest.Main(m)
	}
}

// bench is a world and its database.
type bench struct {
	electortest.World
	db   *conclavesql.DB // the test's own connections
	lock conclavesql.Lock
	dsn  string

	shared   bool              // the strategies are those of a Shared
	deadline time.Duration     // of a crowd's pool; a sixth of the lease if it is 0
	dbs      []*conclavesql.DB // the nodes' connections
}

// inBubble returns a world in memory. It must be called inside the bubble.
func inBubble(t testing.TB, takeover termcas.Takeover) *bench {
	return onEmbedded(t, takeover, devdb.Config{})
}

// onEmbedded returns the world of inBubble on a server with this configuration.
func onEmbedded(t testing.TB, takeover termcas.Takeover, cfg devdb.Config) *bench {
	network := simnet.New(1)
	var err error
	cfg.Listener, err = network.Host("db").Listen(t.Context(), "tcp", "db:3306")
	require.NoError(t, err)
	dsn := mysqltest.ServeEmbedded(t, cfg)
	b := newBench(t, dsn, network.Host("nodes").DialContext, takeover)
	b.Lease, b.Bubble = 3*time.Second, true
	return b
}

// onServer returns a world on a real socket and in real time.
func onServer(t testing.TB, s *mysqltest.Server, takeover termcas.Takeover) *bench {
	return inRealTime(t, s.DSN, takeover)
}

// onReplicas returns a world on three replicated servers, all of which are in the DSN.
func onReplicas(t testing.TB, r *mysqltest.Replicas, takeover termcas.Takeover) *bench {
	return inRealTime(t, r.DSN, takeover)
}

// inRealTime returns a world on a real socket and in real time. Its lease is short, to keep
// the tests fast, but half a beat is still a sufficient timeout on a busy machine.
func inRealTime(t testing.TB, dsn string, takeover termcas.Takeover) *bench {
	b := newBench(t, dsn, new(net.Dialer).DialContext, takeover)
	b.Lease = 2500 * time.Millisecond
	return b
}

// anyServer returns a MySQL server if TEST_ALL is set, otherwise the embedded one. It is
// for benchmarks.
func anyServer(t testing.TB) *mysqltest.Server {
	if mysqltest.Wanted() {
		return mysqltest.New(t, mysqltest.MySQL)
	}
	return mysqltest.NewEmbedded(t)
}

// bubble runs a test on the embedded server, in virtual time.
func bubble(t *testing.T, takeover termcas.Takeover, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, inBubble(t, takeover)) })
}

// everywhere runs a test in a bubble, and on the real servers in real time. Nothing may
// follow it.
func everywhere(t *testing.T, takeover termcas.Takeover, test func(t *testing.T, b *bench)) {
	t.Run(string(mysqltest.Embedded), func(t *testing.T) { bubble(t, takeover, test) })
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) { test(t, onServer(t, s, takeover)) })
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// newBench migrates a lock for this test and makes strategies on it.
func newBench(t testing.TB, dsn string, dial dialer, takeover termcas.Takeover) *bench {
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: dial, Deadline: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, db.Migrate(t.Context(), lock))
	b := &bench{db: db, lock: lock, dsn: dsn}
	b.World = electortest.World{
		Dial:        dial,
		Strategy:    b.strategies(dsn, takeover),
		FencedWrite: b.fencedWrite,
	}
	return b
}

// strategies returns a function that makes strategies on a database.
func (b *bench) strategies(dsn string, takeover termcas.Takeover) func(testing.TB, electortest.NodeSpec) elector.Strategy {
	return func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
		db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: spec.Cable.Dial, Deadline: spec.Beat / 2})
		require.NoError(t, err)
		b.dbs = append(b.dbs, db)
		return b.strategy(t, termcas.Config{DB: db, Lock: b.lock, Takeover: takeover, Rand: spec.Rand, Logger: spec.Logger, Ask: spec.Ask})
	}
}

// strategy returns a strategy that closes what it uses; if the bench is shared, the only
// one of a Shared.
func (b *bench) strategy(t testing.TB, cfg termcas.Config) elector.Strategy {
	if b.shared {
		shared, err := termcas.NewShared(termcas.Config{DB: cfg.DB, Lock: cfg.Lock, Takeover: cfg.Takeover, Logger: cfg.Logger})
		require.NoError(t, err)
		s, err := shared.Strategy(cfg)
		require.NoError(t, err)
		return closingShared{closing{s, cfg.DB}, shared}
	}
	s, err := termcas.New(cfg)
	require.NoError(t, err)
	return closing{s, cfg.DB}
}

// closing is a strategy that closes its connection pool when it is closed.
type closing struct {
	*termcas.Strategy
	db *conclavesql.DB
}

func (c closing) Close() error { return errors.Join(c.Strategy.Close(), c.db.Close()) }

// closingShared also closes the Shared of a process with one election.
type closingShared struct {
	closing
	shared *termcas.Shared
}

func (c closingShared) Close() error {
	return errors.Join(c.Strategy.Close(), c.shared.Close(), c.db.Close())
}

// fencedWrite writes cluster state under a leader's term, and reports whether it was
// accepted.
func (b *bench) fencedWrite(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error) {
	store := conclavesql.NewStateStore(b.db, b.lock)
	states, err := store.Read(ctx)
	if err != nil {
		return false, err
	}
	old := states[conclavesql.KindTable]
	outcome, err := store.Write(ctx, conclavesql.Fence{Owner: owner.String(), Term: term}, old,
		conclavesql.State{Body: "{}", Seq: old.Seq + 1, Nonce: "n"})
	return outcome == conclavesql.Written, err
}

// lockRow is the part of the lock row that the tests check.
type lockRow struct {
	owner      string
	term, beat uint64
	lock       stdsql.NullString // the witness
	conn       stdsql.NullInt64  // the connection that holds it
	resigned   bool
}

// row reads the lock row.
func (b *bench) row(t *testing.T) (r lockRow) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(),
		"SELECT owner, term, term_duration, witness_lock, witness_conn, resigned FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
		[]any{b.lock.DataCenter, b.lock.Name}, &r.owner, &r.term, &r.beat, &r.lock, &r.conn, &r.resigned))
	return r
}

// exec changes the lock row directly.
func (b *bench) exec(t *testing.T, statement string) {
	t.Helper()
	n, err := b.db.Exec(t.Context(), statement, b.lock.DataCenter, b.lock.Name)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

// statements returns how many statements all nodes have sent.
func (b *bench) statements() (n uint64) {
	for _, db := range b.dbs {
		n += db.Statements()
	}
	return n
}

// soon is the limit for "at once": in a bubble only waiting takes time, on a busy machine
// everything does. It is less than any wait for a lease.
func (b *bench) soon() time.Duration {
	if b.Bubble {
		return 50 * time.Millisecond
	}
	return b.Lease / 2
}
