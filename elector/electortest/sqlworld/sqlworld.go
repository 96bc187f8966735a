package sqlworld

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	_ "conclave/internal/bubble" // one processor under the race detector
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
)

// Dialer connects to a server.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// World is a database and how to connect to it.
type World struct {
	DSN  string
	Dial Dialer
	DB   *conclavesql.DB // the test's own connections

	bubble bool
}

// InBubble runs a test on the embedded server, over a network in memory and in virtual
// time.
func InBubble(t *testing.T, test func(t *testing.T, w *World)) {
	synctest.Test(t, func(t *testing.T) { test(t, Memory(t)) })
}

// Memory returns a world in memory. It must be called inside the bubble.
func Memory(t testing.TB) *World {
	network := simnet.New(1)
	listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
	require.NoError(t, err)
	w := &World{DSN: mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener}), Dial: network.Host("nodes").DialContext, bubble: true}
	w.DB = w.Open(t, w.Dial, 5*time.Second)
	return w
}

// New returns a world on a server's socket.
func New(t testing.TB, s *mysqltest.Server) *World {
	w := &World{DSN: s.DSN, Dial: new(net.Dialer).DialContext}
	w.DB = w.Open(t, w.Dial, 5*time.Second)
	return w
}

// Open opens another connection pool, which is closed when the test ends.
func (w *World) Open(t testing.TB, dial Dialer, deadline time.Duration) *conclavesql.DB {
	db, err := conclavesql.Open(w.DSN, conclavesql.Options{Dial: dial, Deadline: deadline})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// Suite describes a strategy over MySQL to the suite of electortest. The strategy opens
// no connections of its own: each node gets a pool, which is closed with it.
type Suite struct {
	// Migrate creates the strategy's table.
	Migrate func(ctx context.Context, db *conclavesql.DB) error
	// Strategy makes the strategy of one node.
	Strategy func(db *conclavesql.DB, logger *slog.Logger) (elector.Strategy, error)
	// Lock is the SQL that selects the strategy's row as l, with Key as its argument.
	Lock, Key string
	// Term is the row's column with the term. The owner is in l.owner.
	Term string
}

// World returns a world with the strategy on w. deadline bounds each statement of a node.
func (s Suite) World(t testing.TB, w *World, lease, deadline time.Duration) electortest.World {
	require.NoError(t, s.Migrate(t.Context(), w.DB))
	for _, statement := range []string{"CREATE TABLE goods (id int PRIMARY KEY, stock int NOT NULL)", "INSERT INTO goods VALUES (1, 0)"} {
		_, err := w.DB.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	sell := "UPDATE goods JOIN " + s.Lock + " SET stock = stock + 1 WHERE goods.id = 1 AND l.owner = ? AND l." + s.Term + " = ?"
	return electortest.World{
		Dial: w.Dial, Lease: lease, Bubble: w.bubble,
		Strategy: func(t testing.TB, spec electortest.NodeSpec) elector.Strategy {
			db, err := conclavesql.Open(w.DSN, conclavesql.Options{Dial: spec.Cable.Dial, Deadline: deadline})
			require.NoError(t, err)
			strategy, err := s.Strategy(db, spec.Logger)
			require.NoError(t, err)
			return pooled{strategy, db}
		},
		FencedWrite: func(ctx context.Context, owner conclave.NodeID, term uint64) (bool, error) {
			n, err := w.DB.Exec(ctx, sell, s.Key, owner.String(), term)
			return n == 1, err
		},
	}
}

// pooled is a strategy that closes its connection pool when it is closed.
type pooled struct {
	elector.Strategy
	db *conclavesql.DB
}

var _ elector.Closer = pooled{}

func (p pooled) Close() error { return p.db.Close() }

// Run runs the suite: on the embedded server in bubbles, and with TEST_ALL=1 on real
// ones in real time. With the usual deadline of half a beat a slow renewal is sent again
// instead of waited for, so the case about a slow answer needs a long deadline.
func (s Suite) Run(t *testing.T) {
	t.Run("long deadline", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World {
			return s.World(t, Memory(t), 3*time.Second, 3*time.Second)
		})
	})
	t.Run("embedded", func(t *testing.T) {
		electortest.Run(t, true, func(t *testing.T) electortest.World {
			return s.World(t, Memory(t), 3*time.Second, time.Second/2)
		}, "trust counts from before the request")
	})
	if !mysqltest.Wanted() {
		return
	}
	mysqltest.AtOnce(t, func(t *testing.T, server *mysqltest.Server) {
		electortest.Run(t, false, func(t *testing.T) electortest.World {
			return s.World(t, New(t, mysqltest.New(t, server.Kind)), 2*time.Second, 2*time.Second)
		})
	})
}
