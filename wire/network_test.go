package wire

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process sets up 64 connections at a time. The next one waits until one of them
// is set up, or takes too long.
func TestTCP_PacesConnections(t *testing.T) {
	const places = 64
	var network TCP
	var done []func()
	for range places {
		free, err := network.Pace(t.Context())
		require.NoError(t, err)
		done = append(done, free)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := network.Pace(ended)
	require.ErrorIs(t, err, context.Canceled)
	done[0]()
	done[0]() // frees no other place
	for range places {
		free, err := network.Pace(t.Context()) // when the others have taken too long
		require.NoError(t, err)
		done = append(done, free)
	}
	for _, free := range done {
		free()
	}
	assert.True(t, settingUp.Empty())
}
