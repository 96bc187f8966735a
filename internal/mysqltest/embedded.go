package mysqltest

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

// NewEmbedded runs an embedded server until the test ends.
func NewEmbedded(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dsn := ServeEmbedded(t, devdb.Config{Listener: listener})
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	root, err := open(config)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &Server{Kind: Embedded, Version: "embedded", DSN: dsn, root: root}
}

// ForExample runs an embedded server until stop is called, for examples, which
// have no testing.TB. It panics if it cannot.
func ForExample() (dsn string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server, err := devdb.New(devdb.Config{Listener: listener})
	if err != nil {
		panic(err)
	}
	ctx, crash := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx) // the example fails without it
	}()
	return server.DSN(), func() { crash(); <-ended }
}

// ServeEmbedded runs an embedded server with the configuration until the test
// ends. It may be called in a bubble with a listener in memory. The DSN's user
// is root.
func ServeEmbedded(t testing.TB, cfg devdb.Config) (dsn string) {
	t.Helper()
	server, err := devdb.New(cfg)
	require.NoError(t, err)
	ctx, crash := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		crash()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the embedded server ended with %v", err)
		}
	})
	return "root@tcp(" + cfg.Listener.Addr().String() + ")/conclave"
}
