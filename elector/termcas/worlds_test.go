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
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) {
	switch { // this test binary, run as a process of its own
	case os.Getenv(candidateEnv) != "":
		candidate()
	case os.Getenv(databaseEnv) != "":
		database()
	case os.Getenv(believerEnv) != "":
		believer()
	default:
		mysqltest.Main(m)
	}
}

// bench is a world and the database under it.
type bench struct {
	electortest.World
	db   *conclavesql.DB // the test's own way in
	lock conclavesql.Lock
	dsn  string
	dbs  []*conclavesql.DB // the nodes' ways in
}

// inBubble is a world in memory; call it inside the bubble.
func inBubble(t testing.TB, takeover termcas.Takeover) *bench {
	network := simnet.New(1)
	listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
	require.NoError(t, err)
	dsn := mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener})
	b := newBench(t, dsn, network.Host("nodes").DialContext, takeover)
	b.Lease, b.Bubble = 3*time.Second, true
	return b
}

// onServer is a world on a real socket and in real time. Its lease is short, for the
// tests' sake; half a beat of it is still patience enough for a busy machine.
func onServer(t testing.TB, s *mysqltest.Server, takeover termcas.Takeover) *bench {
	b := newBench(t, s.DSN, new(net.Dialer).DialContext, takeover)
	b.Lease = 2500 * time.Millisecond
	return b
}

// anyServer is a MySQL server, if real ones are asked for, or the embedded one: for
// benchmarks.
func anyServer(t testing.TB) *mysqltest.Server {
	if mysqltest.Wanted() {
		return mysqltest.New(t, mysqltest.MySQL)
	}
	return mysqltest.NewEmbedded(t)
}

// bubble runs a story on the embedded server, in virtual time.
func bubble(t *testing.T, takeover termcas.Takeover, story func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { story(t, inBubble(t, takeover)) })
}

// everywhere runs a story in a bubble, and on the real servers in real time.
func everywhere(t *testing.T, takeover termcas.Takeover, story func(t *testing.T, b *bench)) {
	t.Run(string(mysqltest.Embedded), func(t *testing.T) { bubble(t, takeover, story) })
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) { story(t, onServer(t, s, takeover)) })
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// newBench migrates a lock of its own and prepares strategies on it.
func newBench(t testing.TB, dsn string, dial dialer, takeover termcas.Takeover) *bench {
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: dial, Deadline: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, db.Migrate(t.Context(), lock))
	b := &bench{db: db, lock: lock, dsn: dsn}
	b.World = electortest.World{
		Dial: dial,
		Strategy: func(t testing.TB, seat electortest.Seat) elector.Strategy {
			db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: seat.Cable.Dial, Deadline: seat.Beat / 2})
			require.NoError(t, err)
			b.dbs = append(b.dbs, db)
			s, err := termcas.New(termcas.Config{
				DB: db, Lock: lock, Takeover: takeover, Rand: seat.Rand, Logger: seat.Logger, Ask: seat.Ask,
			})
			require.NoError(t, err)
			return closing{s, db}
		},
		FencedWrite: b.fencedWrite,
	}
	return b
}

// closing closes a strategy's pool with it.
type closing struct {
	*termcas.Strategy
	db *conclavesql.DB
}

func (c closing) Close() error { return errors.Join(c.Strategy.Close(), c.db.Close()) }

// fencedWrite is an effect of a leader: a write of cluster state under its term.
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

// lockRow is what the tests look at in the row.
type lockRow struct {
	owner      string
	term, beat uint64
	lock       stdsql.NullString // the witness,
	conn       stdsql.NullInt64  // and the connection that holds it
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

// exec changes the lock row behind everybody's back.
func (b *bench) exec(t *testing.T, statement string) {
	t.Helper()
	n, err := b.db.Exec(t.Context(), statement, b.lock.DataCenter, b.lock.Name)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

// statements counts what all nodes have sent.
func (b *bench) statements() (n uint64) {
	for _, db := range b.dbs {
		n += db.Statements()
	}
	return n
}

// soon is what "at once" means here: in a bubble nothing but waiting takes time, on
// a loaded machine everything does; it is always less than any wait for a lease.
func (b *bench) soon() time.Duration {
	if b.Bubble {
		return 50 * time.Millisecond
	}
	return b.Lease / 2
}
