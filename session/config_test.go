package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/certs"
	"conclave/session"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
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

// The clients of SOFARegistry know no TLS, so that tokens and values would be readable.
func TestConfig_SofaBesideTLSOnLoopbackOnly(t *testing.T) {
	config := session.DefaultConfig()
	config.Node, config.Metas, config.Token = conclave.NodeID{Name: "session-1", Incarnation: "i1"}, []string{"127.0.0.1:1"}, "s3cret"
	config.TLS, config.SofaListen = &certs.Set{}, "127.0.0.1:9600"
	require.NoError(t, config.Validate())
	config.SofaListen = "10.0.0.1:9600"
	assert.ErrorContains(t, config.Validate(), "no TLS")
	config.Insecure = true
	assert.NoError(t, config.Validate())
}

// One client can have a million registrations of 100 bytes each, as `conclave bench
// --full` does with one connection: so one has room in a millionth of the limits.
func TestDefaultConfig_MillionRegistrationsOfOneClientFit(t *testing.T) {
	config, now := session.DefaultConfig(), time.Now()
	assert.GreaterOrEqual(t, config.MaxRegistrations, 1_000_000)
	r := registry.New(time.Hour, 0, nil)
	r.Resize(1, now)
	r.Limit(registry.Limits{Registrations: 1, Bytes: int(config.MaxClientBytes / 1_000_000), AddressBytes: int(config.MaxAddressBytes / 1_000_000)})
	data, err := conclave.NewDataInfoID("million.9999", "", "")
	require.NoError(t, err)
	p := &wirev1.Publisher{Id: strings.Repeat("f", 32), DataInfoId: data.String(), Version: 1, Values: []string{strings.Repeat("x", 100)}}
	_, err = r.Put(&registry.Owner{Client: "bench", Host: "127.0.0.1"}, p, now)
	assert.NoError(t, err)
}
