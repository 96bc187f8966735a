package sql_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// A statement may take Deadline, and a connection many answers, each of which may.
func TestConnect_TakesLongerThanAStatementMay(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		migrated(t, dsn)
		const away = 300 * time.Millisecond // each answer
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &slowConn{conn, away}, nil
		}
		db := openWith(t, dsn, conclavesql.Options{Dial: slow, Deadline: time.Second, Connect: time.Minute})
		var one int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT 1", nil, &one))
		assert.GreaterOrEqual(t, db.RoundTrip(), away)
		assert.Less(t, db.RoundTrip(), time.Second, "the time for connecting is not part of it")
		pinned, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		pinned.Close()
	})
}

// The limit of an answer cancels the dial; the error says what the server did not do.
func TestPin_ServerThatNeverGreetsIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	const answer = 100 * time.Millisecond
	db := openWith(t, "root@tcp("+listener.Addr().String()+")/conclave", conclavesql.Options{Deadline: answer, Connect: time.Minute})
	_, err = db.Pin(t.Context(), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	assert.ErrorContains(t, err, listener.Addr().String()+" accepts connections and has greeted none for")
	assert.NotContains(t, err.Error(), "canceled")
}

// slowConn delays what is read.
type slowConn struct {
	net.Conn
	by time.Duration
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(c.by)
	return n, err
}
