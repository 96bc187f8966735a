package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"conclave"
	"conclave/internal/certs"
)

// A service without TLS would reach none of the others. The certificates are for
// the names that the nodes advertise, and the key of the CA is in no node.
func TestComposeTLS_CoversEveryService(t *testing.T) {
	services := func(file string) map[string]any {
		text, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		var all map[string]any
		require.NoError(t, yaml.Unmarshal(text, &all))
		return all["services"].(map[string]any)
	}
	secured := services("compose/tls.yml")
	names := strings.Split(secured["secrets"].(map[string]any)["command"].([]any)[3].(string), ",")
	for _, name := range slices.Sorted(maps.Keys(services("docker-compose.yml"))) {
		role, number, _ := strings.Cut(name, "-")
		isNode := slices.Contains(certs.Roles, conclave.Role(role))
		if !isNode && !slices.Contains([]string{"publisher", "subscriber", "console", "conclave"}, name) {
			continue // it uses no port of a node
		}
		variable, folder := "CONCLAVE_TLS_DIR", "client"
		if isNode {
			variable, folder = "CONCLAVE_"+strings.ToUpper(role)+"_TLS_DIR", role
			assert.Contains(t, names, role+"-"+number)
		}
		service, ok := secured[name].(map[string]any)
		if !assert.True(t, ok, name) {
			continue
		}
		environment := service["environment"].(map[string]any)
		assert.Equal(t, "/run/secrets/tls", environment[variable], name)
		assert.Equal(t, "/run/secrets/tls", environment["CONCLAVE_TLS_DIR"], "%s: the health check", name)
		assert.Equal(t, []any{"${CONCLAVE_SECRETS:-./compose/secrets}/tls/" + folder + ":/run/secrets/tls:ro"}, service["volumes"], name)
	}
}
