package containers_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/containers"
)

// One event as docker prints it.
const killed = `{"Action":"kill","TimeNano":%d,"Actor":{"Attributes":{"com.docker.compose.service":"data-1","signal":"9"}}}`

func TestWatch_ReportsUntilItsContextEnds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)
	fakeEngine(t, "events", "echo '"+fmt.Sprintf(killed, at.UnixNano())+"'; exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []containers.Event
	err := project(t, nil).Watch(ctx, at, func(e containers.Event) {
		got = append(got, e)
		cancel()
	})
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.True(t, at.Equal(got[0].At))
	assert.Equal(t, containers.Event{At: got[0].At, Service: "data-1", Action: "kill", Signal: syscall.SIGKILL}, got[0])
}

// docker continues without further output, so Watch has to stop it.
func TestWatch_EndsAtInvalidOutput(t *testing.T) {
	fakeEngine(t, "events", "echo 'Events are late today'; exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	err := project(t, nil).Watch(ctx, time.Now(), func(containers.Event) { t.Error("an event was reported") })
	require.NoError(t, ctx.Err(), "Watch ends before its context")
	assert.ErrorContains(t, err, "read the output of docker events")
}

func TestWatch_ReportsThatDockerEnded(t *testing.T) {
	fakeEngine(t, "events", "exit 3")
	err := project(t, nil).Watch(t.Context(), time.Now(), func(containers.Event) {})
	assert.EqualError(t, err, "docker events ended: exit status 3")
}
