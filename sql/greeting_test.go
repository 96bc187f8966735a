package sql

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
)

// frozen is a server whose machine accepts connections, and that greets none until it
// continues.
type frozen struct {
	greeter

	mu      sync.Mutex // guards the fields below
	dials   int
	closed  int               // given up before a greeting
	open    map[net.Conn]bool // without a greeting
	running bool
}

func newFrozen(t *testing.T) *frozen {
	f := &frozen{open: map[net.Conn]bool{}}
	f.greeter.dial, f.silent = f.accept, map[string]*greetedConn{}
	t.Cleanup(f.greeter.close)
	return f
}

func (f *frozen) accept(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	f.open[far] = true
	if f.running {
		f.greet(far)
	}
	go func() {
		_, err := far.Read(make([]byte, 1))
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil && f.open[far] {
			delete(f.open, far)
			f.closed++
		}
		far.Close()
	}()
	return near, nil
}

// greet sends a greeting; mu is held.
func (f *frozen) greet(conn net.Conn) {
	delete(f.open, conn)
	go func() { _, _ = conn.Write([]byte("hello")) }()
}

// resume makes the server continue, and greet what it has accepted, if it did not lose it.
func (f *frozen) resume(lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = true
	for conn := range f.open {
		if !lost {
			f.greet(conn)
		}
	}
}

// try dials as a candidate does.
func (f *frozen) try(ctx context.Context) error {
	conn, err := f.connect(ctx, "tcp", "db:3306", time.Second/2)
	if err != nil {
		return err
	}
	defer conn.Close()
	hello := make([]byte, 5)
	_, err = conn.Read(hello)
	if string(hello) != "hello" {
		return errors.New("another greeting")
	}
	return err
}

// A minute in which five candidates look for a frozen server again and again.
func TestGreeter_GivesUpFewConnections(t *testing.T) {
	for name, lost := range map[string]bool{"kept connections are greeted": false, "kept connections are dead": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFrozen(t)
				began := time.Now()
				var trying sync.WaitGroup
				for range 5 {
					trying.Go(func() {
						for time.Since(began) < time.Minute {
							require.ErrorIs(t, f.try(t.Context()), context.DeadlineExceeded)
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				trying.Wait()
				synctest.Wait()
				assert.Less(t, f.closed, 20)
				assert.Less(t, f.dials, 20)
				f.resume(lost)
				synctest.Wait()
				resumed := time.Now()
				for f.try(t.Context()) != nil {
				}
				if lost {
					assert.Less(t, time.Since(resumed), 31*time.Second)
				} else {
					assert.Zero(t, time.Since(resumed))
				}
				for range 3 {
					require.NoError(t, f.try(t.Context()), "there is no silence any more")
				}
			})
		})
	}
}

// A login that is too late would be ended by the server.
func TestGreeter_OldGreetingIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrozen(t)
		require.ErrorContains(t, f.try(t.Context()), "db:3306 accepts connections and has greeted none for")
		f.resume(false)
		time.Sleep(greetingUse + time.Second)
		require.NoError(t, f.try(t.Context()))
		assert.Equal(t, 2, f.dials)
	})
}

func TestGreeter_CanceledDialKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrozen(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, f.try(ctx), context.DeadlineExceeded)
		f.resume(false)
		require.NoError(t, f.try(t.Context()))
		assert.Equal(t, 1, f.dials)
	})
}

// After a long silence another connection is made in time: the server may have been
// replaced behind its name.
func TestGreeter_LongSilenceIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrozen(t)
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			require.ErrorIs(t, f.try(t.Context()), context.DeadlineExceeded)
		}
		assert.Less(t, f.dials, 35)
		f.resume(true)
		resumed := time.Now()
		for f.try(t.Context()) != nil {
		}
		assert.LessOrEqual(t, time.Since(resumed), 31*time.Second)
	})
}
