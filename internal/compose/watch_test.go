package compose_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/compose"
)

// One event as docker prints it.
const killed = `{"Action":"kill","TimeNano":%d,"Actor":{"Attributes":{"com.docker.compose.service":"data-1","signal":"9"}}}`

func TestWatchTellsUntilItsContextEnds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)
	fakeEngine(t, "events", "echo '"+fmt.Sprintf(killed, at.UnixNano())+"'; exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []compose.Event
	err := project(t, nil).Watch(ctx, at, func(e compose.Event) {
		told = append(told, e)
		cancel()
	})
	require.NoError(t, err)
	require.Len(t, told, 1)
	assert.True(t, at.Equal(told[0].At))
	assert.Equal(t, compose.Event{At: told[0].At, Service: "data-1", Action: "kill", Signal: syscall.SIGKILL}, told[0])
}

// The engine goes on and says nothing more: nobody would learn that nobody listens.
func TestWatchEndsAtWhatItDoesNotUnderstand(t *testing.T) {
	fakeEngine(t, "events", "echo 'Events are late today'; exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	err := project(t, nil).Watch(ctx, time.Now(), func(compose.Event) { t.Error("told of nothing that was said") })
	require.NoError(t, ctx.Err(), "it ends by itself")
	assert.ErrorContains(t, err, "read what docker events says")
}

func TestWatchSaysWhenTheEngineGoes(t *testing.T) {
	fakeEngine(t, "events", "exit 3")
	err := project(t, nil).Watch(t.Context(), time.Now(), func(compose.Event) {})
	assert.EqualError(t, err, "docker events ended: exit status 3")
}
