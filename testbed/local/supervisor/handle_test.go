package supervisor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// At its end a supervisor closes its socket, and then records how it has ended.
func TestDown_SupervisorIsFinishing(t *testing.T) {
	other := exec.Command("sleep", "600")
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	dir := t.TempDir()
	lock, err := lockDir(dir)
	require.NoError(t, err)
	s := state{Supervisor: identify(other.Process.Pid), Control: filepath.Join(dir, "closed.sock")}
	require.NoError(t, s.save(dir))
	finishing := time.AfterFunc(50*time.Millisecond, func() {
		s.Failed, s.Stopped = "no such privilege", true
		assert.NoError(t, s.save(dir))
		lock.Close()
	})
	defer finishing.Stop()
	assert.EqualError(t, (&Handle{dir: dir}).Down(t.Context(), true), "no such privilege")
	assert.True(t, s.Supervisor.alive(), "it was not killed")
}

// A supervisor that hangs after it was asked is killed, too.
func TestDown_NowKillsASupervisorThatHasAnswered(t *testing.T) {
	other := exec.Command("sleep", "600")
	require.NoError(t, other.Start())
	dir := t.TempDir()
	lock, err := lockDir(dir)
	require.NoError(t, err)
	ended := make(chan error)
	go func() {
		_ = other.Wait()
		ended <- lock.Close()
	}()
	s := state{Supervisor: identify(other.Process.Pid), Control: filepath.Join(dir, "s")}
	require.NoError(t, s.save(dir))
	ln, err := net.Listen("unix", s.Control)
	require.NoError(t, err)
	answers := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { ended <- answers.Serve(ln) }()
	_ = (&Handle{dir: dir}).Down(t.Context(), true) // there are no processes to end
	require.NoError(t, <-ended)
	require.NoError(t, answers.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}

// If the context ends during a look, the result of that look counts if a
// process has ended or all are ready. Otherwise the processes could not be
// asked in time, and the look before counts.
func TestAwaitReady_ContextEndsDuringALook(t *testing.T) {
	looks := func(last ...Process) [][]Process {
		return [][]Process{{{Name: "data-1", State: "suspended"}, {Name: "db", State: "ready"}}, last}
	}
	for name, c := range map[string]struct {
		looks [][]Process // the context ends during the last
		want  string      // text of the error; "": none
		late  bool
	}{
		"no process could be asked": {
			looks(Process{Name: "data-1", State: "starting"}, Process{Name: "db", State: "starting"}),
			"not ready: data-1 (suspended); their logs are in DIR/logs", true,
		},
		"one has ended": {
			looks(Process{Name: "data-1", State: stateExited}, Process{Name: "db", State: "starting"}),
			"data-1 ended before it was ready (exited): no log", false,
		},
		"all are ready": {
			looks(Process{Name: "data-1", State: "ready"}, Process{Name: "db", State: "ready"}),
			"", false,
		},
		"the first look is cut short": {
			[][]Process{{{Name: "data-1", State: "starting", Why: "no table"}, {Name: "db", State: "starting"}}},
			"not ready: data-1 (no table), db (starting); their logs are in DIR/logs", true,
		},
		"the look before found no processes": {
			[][]Process{nil, {{Name: "db", State: "starting"}}},
			"not ready: db (starting); their logs are in DIR/logs", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			h, n := &Handle{dir: "DIR"}, 0
			err := h.AwaitAll(ctx, func(context.Context) ([]Process, error) {
				if n++; n < len(c.looks) {
					return c.looks[n-1], nil
				}
				end()
				return c.looks[len(c.looks)-1], nil
			})
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
			assert.Equal(t, c.late, errors.Is(err, context.Canceled))
		})
	}
}
