package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire/rights"
)

// Only sessions of the configuration are sent the token; those that others report are
// sent one that is of no use elsewhere.
func TestTokenFor_ReportedSessionsAreSentABoundToken(t *testing.T) {
	for _, bind := range []bool{false, true} {
		c, err := New(Config{
			Sessions: []string{"a:1"}, Token: "secret", Bind: bind,
			Resolve: func(context.Context) ([]string, error) { return []string{"b:1"}, nil },
		})
		require.NoError(t, err)
		c.readToken()
		c.resolve(t.Context())
		bound := func(address string) string { return rights.Bind("secret", address) }
		resolved := "secret"
		if bind {
			resolved = bound("b:1")
		}
		assert.Equal(t, []string{"secret", resolved, bound("c:1")}, []string{c.tokenFor("a:1"), c.tokenFor("b:1"), c.tokenFor("c:1")})
	}
}
