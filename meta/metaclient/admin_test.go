package metaclient_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/wire"
)

// The requests of an operator carry a token, which a proxy would learn.
func TestAdmin_UsesNoProxyOfTheEnvironment(t *testing.T) {
	transport := metaclient.NewAdmin(metaclient.AdminConfig{}).HTTP.Transport
	require.IsType(t, &http.Transport{}, transport, "nil is http.DefaultTransport, which asks the environment")
	assert.Nil(t, transport.(*http.Transport).Proxy)
}

// A name that leads to another path is refused before anything is sent: a router
// removes its dots, and the request becomes another one.
func TestAdmin_RefusesNamesThatArePaths(t *testing.T) {
	admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: []string{"127.0.0.1:1"}})
	for _, name := range []string{"", ".", "..", "../stopping", "a/b"} {
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(admin.RemoveConfig(t.Context(), name)), name)
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(admin.Allow(t.Context(), name)), name)
	}
	assert.Equal(t, wire.CodeUnavailable, wire.CodeOf(admin.Allow(t.Context(), "a.b")))
}
