package inprocess

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
	"conclave/testbed"
)

// server is one whose graceful stop ends when it may.
type server struct {
	mayStop chan struct{}
	stop    chan struct{}
	once    sync.Once
	stops   atomic.Int32 // calls of Shutdown that have not returned
}

func newServer() *server {
	return &server{mayStop: make(chan struct{}), stop: make(chan struct{})}
}

func (s *server) Run(ctx context.Context) error {
	select {
	case <-s.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) Shutdown(ctx context.Context) error {
	s.stops.Add(1)
	defer s.stops.Add(-1)
	select {
	case <-s.mayStop:
		s.once.Do(func() { close(s.stop) })
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestProcess_KillEndsAStopInProgress(t *testing.T) {
	s := newServer()
	ended := false
	p := Start(s, func() { ended = true })
	late := make(chan error, 1)
	p.Stop(func(err error) { late <- err })
	assert.True(t, p.Asked())
	p.Kill()
	assert.ErrorIs(t, <-late, context.Canceled)
	assert.ErrorIs(t, p.Err(), context.Canceled)
	assert.False(t, p.Running())
	assert.True(t, ended)
	assert.Zero(t, s.stops.Load(), "Kill has joined the stop")
	p.Stop(nil) // of a killed one does nothing
	p.Kill()
	assert.Zero(t, s.stops.Load())
}

// Stops and kills from many goroutines: each kill joins every stop that began before.
func TestProcess_StopsAndKillsInARace(t *testing.T) {
	for range 300 {
		s := newServer()
		close(s.mayStop)
		p := Start(s, nil)
		var all sync.WaitGroup
		for i := range 8 {
			if i%2 == 0 {
				all.Go(func() { p.Stop(nil) })
			} else {
				all.Go(func() {
					p.Kill()
					assert.Zero(t, s.stops.Load())
				})
			}
		}
		all.Wait()
		require.False(t, p.Running())
		if err := p.Err(); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}

// A meta whose database is away reports that, ends as one that has served if it is stopped then,
// and starts when the database is there.
func TestMeta_LogsThatItWaitsForItsDatabase(t *testing.T) {
	c, err := New(Config{Metas: 1, Datas: 1, Sessions: 1})
	require.NoError(t, err)
	defer c.Close()
	start(t, c)
	c.Process("meta-1").Kill()
	c.Process(testbed.Database).Kill()
	var log clitest.Output
	p, err := c.Start("meta-1", hclog.New(&hclog.LoggerOptions{Output: &log}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the database is not there yet") }, time.Minute, time.Millisecond)
	assert.True(t, p.Running())
	p.Stop(func(err error) { t.Errorf("stop: %v", err) })
	<-p.Done()
	require.NoError(t, p.Err(), "it was not killed")
	_, err = c.Start("meta-1", nil)
	require.NoError(t, err)
	_, err = c.Start(testbed.Database, nil)
	require.NoError(t, err)
	require.NoError(t, c.AwaitReady(t.Context()))
}
