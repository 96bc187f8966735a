package sql_test

import (
	"context"
	stdsql "database/sql"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

func TestPinned_IdleConnectionNoticesItsEnd(t *testing.T) {
	dsn := embedded(t, devdb.Config{})
	var mu sync.Mutex
	var last net.Conn
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		last = conn
		return conn, err
	}})
	require.NoError(t, err)
	defer db.Close()
	lost := make(chan error, 2)
	p, err := db.Pin(t.Context(), func(err error) { lost <- err })
	require.NoError(t, err)
	defer p.Close()
	mu.Lock()
	last.(*net.TCPConn).CloseRead() // the network ends it; no statement is in progress
	mu.Unlock()
	select {
	case err := <-lost:
		assert.Error(t, err)
	case <-time.After(30 * time.Second):
		assert.Fail(t, "the loss was not reported")
	}
	_, err = p.Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, conclavesql.ErrUnavailable)
}

// A proxy accepts the dial, and breaks the connection when it finds no server.
// The error of Pin reports that; a second report would make a caller that
// retries on both dial without a pause.
func TestPin_FailureIsNotReportedAsLoss(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	defer group.Wait()
	defer listener.Close()
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	})
	db := open(t, "root@tcp("+listener.Addr().String()+")/conclave")
	lost := make(chan error, 10)
	for range 10 {
		_, err := db.Pin(t.Context(), func(err error) { lost <- err })
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
	}
	assert.Empty(t, lost)
}

func TestPinned_CloseFreesLocksAndIsNotReportedAsLoss(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		lost := make(chan error, 2)
		holder, err := db.Pin(t.Context(), func(err error) { lost <- err })
		require.NoError(t, err)
		waiter, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		name := "test:" + time.Now().Format("150405.000000")
		var taken, conn stdsql.NullInt64
		require.NoError(t, holder.QueryRow(t.Context(), conclavesql.LockTake, []any{name, name}, &taken, &conn))
		require.Equal(t, int64(1), taken.Int64)
		require.True(t, conn.Valid)

		woken := make(chan int64, 1)
		go func() {
			var got stdsql.NullInt64
			waiter.QueryRow(context.Background(), conclavesql.LockAwait, []any{name, 20}, &got)
			woken <- got.Int64
		}()
		assert.NoError(t, holder.Close())
		assert.NoError(t, holder.Close(), "closing again has no effect")
		assert.Equal(t, int64(1), <-woken, "the waiter has the lock")
		assert.NoError(t, waiter.Close())
		assert.Empty(t, lost)
	})
}

func TestPinned_CloseEndsWait(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		holder, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer holder.Close()
		name := "test:" + time.Now().Format("150405.000000")
		var taken, conn stdsql.NullInt64
		require.NoError(t, holder.QueryRow(t.Context(), conclavesql.LockTake, []any{name, name}, &taken, &conn))
		waiter, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			var got stdsql.NullInt64
			ended <- waiter.QueryRow(context.Background(), conclavesql.LockAwait, []any{name, 30}, &got)
		}()
		began := time.Now()
		assert.NoError(t, waiter.Close())
		assert.Error(t, <-ended)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

// A waiter repeats its wait at the moment in which another goroutine closes its
// connection. It gets an error, whichever comes first.
func TestPinned_StatementDuringClose(t *testing.T) {
	db := open(t, embedded(t, devdb.Config{}))
	for range 300 {
		p, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		var group sync.WaitGroup
		group.Go(func() {
			var one int
			for p.QueryRow(context.Background(), "SELECT 1", nil, &one) == nil {
			}
		})
		group.Go(func() { assert.NoError(t, p.Close()) })
		group.Go(func() { assert.NoError(t, p.Close()) })
		group.Wait()
	}
}

func TestPinned_StatementContextClosesConnection(t *testing.T) {
	servers(t, func(t *testing.T, dsn string) {
		db := open(t, dsn)
		p, err := db.Pin(t.Context(), nil)
		require.NoError(t, err)
		defer p.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = p.Exec(ctx, "SELECT SLEEP(5)")
		require.ErrorIs(t, err, conclavesql.ErrUnavailable)
		_, err = p.Exec(t.Context(), "SELECT 1")
		assert.Error(t, err, "the connection is not used again")
	})
}
