package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// A command that would end the service is refused with exit code 1 and one line
// with its effect and the hint at --force; --force and --dry-run are sent to
// the cluster.
func TestOperatorCommands_ForceAndDryRun(t *testing.T) {
	var queries []string
	meta := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/v1/nodes":
			serve.WriteJSON(w, http.StatusOK, []metaclient.NodeInfo{{Name: "session-1", Role: "session"}, {Name: "meta-1", Role: "meta", Address: r.Host}})
			return
		case r.Method == http.MethodGet && r.URL.Path == "/v1/leader":
			serve.WriteJSON(w, http.StatusOK, metaclient.LeaderInfo{Leader: "meta-1", Term: 3})
			return
		case r.Method == http.MethodGet && r.URL.Path == "/v1/blacklist":
			serve.WriteJSON(w, http.StatusOK, []metaclient.BlacklistInfo{})
			return
		case r.Method == http.MethodGet:
			serve.WriteJSON(w, http.StatusOK, map[string]string{"name": "meta-1"})
			return
		}
		queries = append(queries, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
		switch r.URL.RawQuery {
		case "dryRun=true":
			serve.WriteJSON(w, http.StatusOK, metaclient.Effect{DryRun: true, Effect: "nothing would lead", Refused: true, Code: wire.CodeUnsafe})
		case "force=true":
			serve.WriteJSON(w, http.StatusOK, map[string]any{})
		default:
			serve.WriteError(w, wire.Errorf(wire.CodeUnsafe, "nothing would lead"))
		}
	}))
	defer meta.Close()
	address := strings.TrimPrefix(meta.URL, "http://")
	for command, path := range map[string]string{
		"blacklist add session-1":       "PUT /v1/blacklist/session-1",
		"switch set push-window-ms 9":   "PUT /v1/switches/push-window-ms",
		"election quit meta-1":          "POST /v1/election/quit",
		"election observe meta-1":       "POST /v1/election/quit",
		"election resign":               "POST /v1/leader/resign",
		"election force-refresh meta-1": "POST /v1/election/force-refresh",
		"drain session-1":               "PUT /v1/blacklist/session-1",
		"drain meta-1":                  "POST /v1/election/quit",
		"resign":                        "POST /v1/leader/resign",
	} {
		call := func(more ...string) result {
			queries = nil
			return tool(t, append(append([]string{"--meta", address}, strings.Fields(command)...), more...)...)
		}
		r := call()
		assert.Equal(t, exitFailed, r.code, command)
		assert.Contains(t, r.stderr, "nothing would lead", command)
		assert.Contains(t, r.stderr, "--force", command)
		assert.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		assert.Equal(t, []string{path + "?"}, queries, command)

		r = call("--dry-run")
		assert.Equal(t, exitDone, r.code, command)
		assert.Equal(t, "refused without --force: nothing would lead\n", r.stdout, command)
		assert.Equal(t, []string{path + "?dryRun=true"}, queries, command)

		assert.Equal(t, exitUsage, call("--dry-run", "--force").code, command)
		if !strings.HasSuffix(command, "resign") && command != "drain meta-1" { // these wait for another leader
			assert.Equal(t, exitDone, call("--force").code, command)
			assert.Equal(t, []string{path + "?force=true"}, queries, command)
		}
	}
}

func TestProtectionEnd_AsksTheMetas(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"DELETE /v1/protection": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	assert.Equal(t, result{stdout: "protection has ended: slots move again\n"}, tool(t, "protection", "end", "--meta", meta))
	assert.JSONEq(t, `{"protected": false}`, tool(t, "protection", "end", "--json", "--meta", meta).stdout)
	r := tool(t, "protection", "end", "--meta", fakeMeta(t, map[string]any{"DELETE /v1/protection": wire.Errorf(wire.CodeUnavailable, "not now")}))
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "not now")
}
