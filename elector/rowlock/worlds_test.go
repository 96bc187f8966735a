package rowlock_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/rowlock"
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// world is a database and the way to it.
type world struct {
	dsn  string
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	db   *conclavesql.DB // the test's own way in
}

// inBubble plays a test on the embedded server, over a network in memory and in
// virtual time.
func inBubble(t *testing.T, play func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { play(t, memory(t)) })
}

// memory is a world inside the bubble.
func memory(t testing.TB) *world {
	network := simnet.New(1)
	listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
	require.NoError(t, err)
	mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener})
	return newWorld(t, "root@tcp(db:3306)/conclave", network.Host("nodes").DialContext)
}

func newWorld(t testing.TB, dsn string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *world {
	w := &world{dsn: dsn, dial: dial}
	w.db = w.open(t, dial, 5*time.Second)
	return w
}

// open is another way in.
func (w *world) open(t testing.TB, dial func(ctx context.Context, network, addr string) (net.Conn, error), deadline time.Duration) *conclavesql.DB {
	db, err := conclavesql.Open(w.dsn, conclavesql.Options{Dial: dial, Deadline: deadline})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

const key = "the leader"

// repaired is the suite's world for the repaired form.
func (w *world) repaired(t testing.TB, lease, deadline time.Duration, bubble bool) electortest.World {
	require.NoError(t, rowlock.Migrate(t.Context(), w.db))
	_, err := w.db.Exec(t.Context(), "CREATE TABLE goods (id int PRIMARY KEY, stock int NOT NULL)")
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), "INSERT INTO goods VALUES (1, 0)")
	require.NoError(t, err)
	return electortest.World{
		Dial: w.dial, Lease: lease, Bubble: bubble,
		Strategy: func(t testing.TB, seat electortest.Seat) elector.Strategy {
			db, err := conclavesql.Open(w.dsn, conclavesql.Options{Dial: seat.Cable.Dial, Deadline: deadline})
			require.NoError(t, err)
			s, err := rowlock.New(rowlock.Config{DB: db, Key: key, Logger: seat.Logger})
			require.NoError(t, err)
			return closing{s, db}
		},
		FencedWrite: func(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error) {
			n, err := w.db.Exec(ctx, "UPDATE goods JOIN row_lock l ON l.lock_key = ? SET stock = stock + 1 WHERE goods.id = 1 AND l.owner = ? AND l.id = ?",
				key, owner.String(), term)
			return n == 1, err
		},
	}
}

// closing closes a strategy's pool with it.
type closing struct {
	*rowlock.Strategy
	db *conclavesql.DB
}

func (c closing) Close() error { return c.db.Close() }

// TestConformance plays the suite with the repaired form: on the embedded server in
// bubbles, and with TEST_ALL=1 on real ones in real time. With statements that end
// after half a beat, as they should, a slow renewal is not waited for but said again,
// so that there is no slow answer to be shown.
func TestConformance(t *testing.T) {
	t.Run("patient", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World {
			return memory(t).repaired(t, 3*time.Second, 3*time.Second, true)
		})
	})
	t.Run("embedded", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World {
			return memory(t).repaired(t, 3*time.Second, time.Second/2, true)
		}, "trust counts from before the request")
	})
	if !mysqltest.Wanted() {
		return
	}
	for _, kind := range []mysqltest.Kind{mysqltest.MySQL, mysqltest.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			electortest.Run(t, false, func(t *testing.T) electortest.World {
				w := newWorld(t, mysqltest.New(t, kind).DSN, new(net.Dialer).DialContext)
				return w.repaired(t, 1500*time.Millisecond, 1500*time.Millisecond, false)
			})
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	db, err := conclavesql.Open("root@tcp(127.0.0.1:1)/x", conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	for name, cfg := range map[string]rowlock.Config{
		"DB is missing": {Key: "k"},
		`key ""`:        {DB: db},
		"ASCII":         {DB: db, Key: "schlüssel"},
	} {
		_, err := rowlock.New(cfg)
		require.ErrorContains(t, err, name)
	}
	me := conclave.NodeID{Name: "a", Incarnation: "1"}
	for name, cfg := range map[string]rowlock.LocksConfig{
		"DB is missing":  {Owner: me},
		"an incarnation": {DB: db, Owner: conclave.NodeID{Name: "a"}},
		"Lease 1ms":      {DB: db, Owner: me, Lease: time.Millisecond},
		"Refresh 5s must be positive and at most": {DB: db, Owner: me, Refresh: 5 * time.Second},
		"Margin 3s must be at most":               {DB: db, Owner: me, Margin: 3 * time.Second},
	} {
		_, err := rowlock.NewLocks(cfg)
		require.ErrorContains(t, err, name)
	}
	_, err = rowlock.NewRegistry(rowlock.RegistryConfig{DB: db})
	require.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, rowlock.Migrate(ctx, db), conclavesql.ErrUnavailable)
}
