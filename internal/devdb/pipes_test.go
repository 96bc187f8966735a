package devdb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

// pipes is a network in memory with one address.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{} // closed by Close
	once    sync.Once
}

func newPipes() *pipes { return &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return addr("db:3306") }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialled <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stopper dials connections that stop reading after stop was called.
type stopper struct {
	pipes   *pipes
	stopped chan struct{} // closed by stop
}

func (p *pipes) stopper() *stopper { return &stopper{p, make(chan struct{})} }
func (s *stopper) stop()           { close(s.stopped) }

func (s *stopper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := s.pipes.dial(ctx, network, address)
	return &stoppableConn{Conn: c, stopped: s.stopped, closed: make(chan struct{})}, err
}

type stoppableConn struct {
	net.Conn
	stopped <-chan struct{}
	closed  chan struct{} // closed by Close
	once    sync.Once
}

func (c *stoppableConn) Read(p []byte) (int, error) {
	select {
	case <-c.stopped:
		<-c.closed
		return 0, io.EOF
	default:
		return c.Conn.Read(p)
	}
}

func (c *stoppableConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func parsed(t *testing.T, s *devdb.Server) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(s.DSN())
	require.NoError(t, err)
	return cfg
}

func openConfig(t *testing.T, cfg *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// openOver returns a pool whose connections come from dial.
func openOver(t *testing.T, s *devdb.Server, dial func(context.Context, string, string) (net.Conn, error)) *sql.DB {
	t.Helper()
	cfg := parsed(t, s)
	cfg.DialFunc = dial
	return openConfig(t, cfg)
}

// hangUp closes a connection's socket, as the kernel does when a process dies.
func hangUp(t *testing.T, c *sql.Conn) {
	t.Helper()
	require.ErrorIs(t, c.Raw(func(any) error { return driver.ErrBadConn }), driver.ErrBadConn)
}

// serveUntil runs a server that the test shuts down itself; the channel
// receives the error of Run.
func serveUntil(t *testing.T) (*devdb.Server, <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := devdb.New(devdb.Config{Listener: l, Logger: testLog(t), LockWait: 3 * time.Second})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	return s, ended
}
