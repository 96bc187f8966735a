package supervisor_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/local/supervisor"
)

// insideServer runs until it is killed: a graceful stop never completes.
type insideServer struct {
	mu    sync.Mutex
	asked bool
	end   func()
	done  chan struct{}
}

func (s *insideServer) Kill()                 { s.end() }
func (s *insideServer) Done() <-chan struct{} { return s.done }
func (s *insideServer) Err() error            { return context.Canceled }
func (s *insideServer) Stop(func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
}

func (s *insideServer) Asked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func startInside(string, io.Writer) (supervisor.Server, error) {
	s := &insideServer{done: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.done) })
	return s, nil
}

// Nodes inside one process have one pid, and are distinguished.
func TestInside_SignalsReachOneNode(t *testing.T) {
	cfg := supervisor.DefaultConfig()
	cfg.Dir, cfg.AnyPorts, cfg.Migrate, cfg.Inside = t.TempDir(), true, noMigration, startInside
	c, err := supervisor.New(cfg)
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, c.Run(context.Background())) })
	defer running.Wait()
	defer c.Stop(true)
	<-c.Started()
	h, ctx := c.Handle(), within(t, time.Minute)
	require.True(t, h.OneProcess())

	_, err = h.Terminate("data-1")
	require.NoError(t, err)
	first, err := h.Terminate("data-1") // a program ends at the second SIGTERM, too
	require.NoError(t, err)
	_, err = h.AwaitEnd(ctx, "data-1", first)
	require.NoError(t, err)
	_, err = h.Terminate("data-1")
	require.ErrorIs(t, err, supervisor.ErrDown)
	require.NoError(t, h.Start(ctx, "data-1"))
	require.ErrorContains(t, h.Start(ctx, "data-1"), fmt.Sprintf("data-1 (inside pid %d)", os.Getpid()))
	assert.False(t, h.Runs("data-1", first), "its successor does")
	p, err := h.AwaitEnd(ctx, "data-1", first)
	require.NoError(t, err)
	assert.Equal(t, "starting", p.State)
	second, err := h.Terminate("data-1")
	require.NoError(t, err)
	assert.True(t, h.Runs("data-1", second), "it has not ended")
	require.ErrorIs(t, h.Kill(ctx, "session-1", syscall.SIGSTOP), supervisor.ErrOneProcess)

	// A kill returns although the next start may be recorded before it looks.
	enough := make(chan struct{})
	running.Go(func() {
		for {
			select {
			case <-enough:
				return
			default:
				_ = h.Start(ctx, "session-1") // it may be running
			}
		}
	})
	defer close(enough)
	for kills := 0; kills < 50; {
		err := h.Kill(ctx, "session-1", syscall.SIGKILL)
		if err == nil {
			kills++
		} else {
			require.ErrorIs(t, err, supervisor.ErrDown)
		}
	}
}
