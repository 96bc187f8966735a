package sqlworld

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
