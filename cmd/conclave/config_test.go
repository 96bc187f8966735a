package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

func TestConfig_ListsGetsSetsAndRemoves(t *testing.T) {
	values := []wire.ConfigValue{{ID: "limits", Value: "10", Epoch: conclave.Epoch{Term: 7, Seq: 3}}, {ID: "motto", Value: "\x1b[31mred"}}
	var asked []string
	note := func(answer any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.String())
			serve.WriteJSON(w, http.StatusOK, answer)
		}
	}
	meta := fakeMeta(t, map[string]any{
		"GET /v1/config": values, "GET /v1/leader": someLeader,
		"PUT /v1/config/{id}": note(values[0]), "DELETE /v1/config/{id}": note(metaclient.Effect{Effect: "e"}),
	})
	call := func(args ...string) result { return tool(t, append([]string{"--meta", meta, "config"}, args...)...) }
	assert.Regexp(t, `limits +10 +7\.3`, call("list").stdout)
	assert.Equal(t, "10\n", call("get", "limits").stdout)
	assert.Equal(t, "\x1b[31mred\n", call("get", "motto").stdout, "what is not a terminal gets the value as it is")
	none := call("get", "other")
	assert.Equal(t, exitFailed, none.code)
	assert.Contains(t, none.stderr, "other has no value; list those that have with `conclave config list --meta "+meta+"`")
	require.Equal(t, exitDone, call("set", "limits", "10").code)
	assert.Equal(t, "removed limits\n", call("remove", "limits").stdout)
	assert.Equal(t, "e\n", call("remove", "limits", "--dry-run").stdout)
	assert.Equal(t, []string{"PUT /v1/config/limits", "DELETE /v1/config/limits", "DELETE /v1/config/limits?dryRun=true"}, asked)
	assert.Equal(t, values, decode[[]wire.ConfigValue](t, call("list", "--json")))
}

func TestConfig_RemovalOfAMissingValueFails(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"GET /v1/leader": someLeader, "DELETE /v1/config/{id}": wire.Errorf(wire.CodeNotFound, "there is no configuration value %q", "x")})
	r := tool(t, "--meta", meta, "config", "remove", "x")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "conclave: there is no configuration value \"x\"; list what there is with `conclave config list --meta "+meta+"`\n", r.stderr)
}
