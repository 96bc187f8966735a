package meta

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/wire"
	"conclave/wire/rights"
)

// A request is passed on with a credential that is of use at the leader only, as that
// of the same token.
func TestForward_BindsTheTokenToTheLeader(t *testing.T) {
	var sent string
	leader := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = wire.TokenOf(r.Header) }))
	defer leader.Close()
	address := strings.TrimPrefix(leader.URL, "http://")
	tokens := rights.Fixed("operator-token")
	p := &proxy{config: DefaultConfig(), http: leader.Client(), forwards: func(credential, to string) string { return tokens.Forward(credential, "me:1", to) }}
	for _, credential := range []string{"operator-token", rights.Bind("operator-token", "me:1")} {
		r := httptest.NewRequest(http.MethodPost, "/v1/leader/resign", http.NoBody)
		wire.SetToken(r.Header, credential)
		p.forward(httptest.NewRecorder(), r, wire.NotLeader("meta-2", address))
		assert.Equal(t, rights.Bind("operator-token", address), sent)
	}
	p.forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/leader", http.NoBody), wire.NotLeader("meta-2", address))
	assert.Empty(t, sent)
}
