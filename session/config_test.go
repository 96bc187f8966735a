package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session"
)

// A client may be silent for a lease; its registrations must not be held back
// in that time.
func TestClientLeaseIsWithinTwoThirdsOfTheGrace(t *testing.T) {
	config := session.DefaultConfig()
	config.Node, config.Metas = conclave.NodeID{Name: "session-1", Incarnation: "i1"}, []string{"127.0.0.1:1"}
	require.NoError(t, config.Validate())
	config.ClientLease = config.SessionGrace * 2 / 3
	require.NoError(t, config.Validate())
	config.ClientLease += time.Millisecond
	assert.EqualError(t, config.Validate(), "client lease 10.001s is above two thirds of the session grace 15s: "+
		"a client may be silent for a lease, and its registrations would be held back in between")
}
