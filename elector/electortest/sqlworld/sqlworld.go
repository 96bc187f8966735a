package sqlworld

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
)

// Dialer reaches a server.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// World is a database and the way to it.
type World struct {
	DSN  string
	Dial Dialer
	DB   *conclavesql.DB // the test's own way in

	bubble bool
}

// InBubble plays a test on the embedded server, over a network in memory and in
// virtual time.
func InBubble(t *testing.T, play func(t *testing.T, w *World)) {
	synctest.Test(t, func(t *testing.T) { play(t, Memory(t)) })
}

// Memory is a world in memory; call it inside the bubble.
func Memory(t testing.TB) *World {
	network := simnet.New(1)
	listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
	require.NoError(t, err)
	w := &World{DSN: mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener}), Dial: network.Host("nodes").DialContext, bubble: true}
	w.DB = w.Open(t, w.Dial, 5*time.Second)
	return w
}

// New is a world on a server's socket.
func New(t testing.TB, s *mysqltest.Server) *World {
	w := &World{DSN: s.DSN, Dial: new(net.Dialer).DialContext}
	w.DB = w.Open(t, w.Dial, 5*time.Second)
	return w
}

// Open is another way in, until the test ends.
func (w *World) Open(t testing.TB, dial Dialer, deadline time.Duration) *conclavesql.DB {
	db, err := conclavesql.Open(w.DSN, conclavesql.Options{Dial: dial, Deadline: deadline})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}
