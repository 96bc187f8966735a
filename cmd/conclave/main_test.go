package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// asTool makes the test binary run as the tool, because `up --detach` starts
// its own program as the supervisor.
const asTool = "CONCLAVE_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if buildDir != "" {
			os.RemoveAll(buildDir)
		}
		if playgroundDir != "" {
			os.RemoveAll(playgroundDir)
		}
		os.Exit(code)
	}))
}

// result is the result of one call of the tool.
type result struct {
	code           int
	stdout, stderr string
}

func tool(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// fakeMeta is a meta with prepared answers.
func fakeMeta(t *testing.T, routes map[string]any) string {
	mux := http.NewServeMux()
	for route, body := range routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if err, ok := body.(*wire.Error); ok {
				serve.WriteError(w, err)
				return
			}
			if f, ok := body.(http.HandlerFunc); ok {
				f(w, r)
				return
			}
			serve.WriteJSON(w, http.StatusOK, body)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

var someLeader = metaclient.LeaderInfo{Leader: "meta-2", Address: "127.0.0.1:9616", Term: 7, Beat: 3, LeaseRemainingMs: 2700, Cause: "killed"}

func TestUsageError_ExitsWithTwoAndOneLine(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "frob"`:                          {"frob"},
		"kill takes NAME, got 0 arguments":                {"kill"},
		"blacklist needs a subcommand (one of list, add":  {"blacklist"},
		`ps takes no arguments, got ["x"]`:                {"ps", "x"},
		"unknown flag: --sloots":                          {"up", "--sloots", "3"},
		"--console=127.0.0.1:9":                           {"up", "--console", "127.0.0.1:9"},
		"slots is 3: want a power of two":                 {"--dir", t.TempDir(), "up", "--slots", "3"},
		`"7" for "--signal" flag: want -9, -15, -STOP`:    {"kill", "meta-1", "-7"},
		`"chief" for "--role" flag: want meta`:            {"--meta", "127.0.0.1:1", "nodes", "--role", "chief"},
		`--meta "nowhere": want HOST:PORT`:                {"--meta", "nowhere", "leader"},
		`--meta "a:nowhere": want HOST:PORT`:              {"--meta", "a:nowhere", "leader"},
		`--zookeeper "z": want HOST:PORT`:                 {"lab", "oversell", "--zookeeper", "z"},
		`--session "nowhere": want HOST:PORT`:             {"publish", "--session", "nowhere", "a=b"},
		`--session "there": want HOST:PORT`:               {"services", "--session", "there"},
		"--count is -1: want 0 or more":                   {"subscribe", "x", "--count", "-1"},
		"--wait is -1s: want 0 or more":                   {"leader", "--wait", "-1s"},
		"--lease 0s: want at least 100ms":                 {"lead", "--lease", "0s", "--dsn", "u@tcp(127.0.0.1:1)/d", "--", "true"},
		"--repeat is 0: want more than 0":                 {"bench", "--repeat", "0"},
		"--token and --token-file exclude":                {"--token", "a", "--token-file", "b", "version"},
		`invalid argument "soon" for "--wa`:               {"leader", "--wait", "soon"},
		`--host: host "bad host!": want a host name or`:   {"certs", "--dir", "/dev/null/none", "--host", "bad host!"},
		`unknown type "foo" (want one of act, blacklist`:  {"events", "--type", "foo"},
		`unknown type "stop.it" (want one of stop.annou`:  {"events", "--type", "stop,stop.it"},
		`clients takes at most one NAME, got 2 argument`:  {"clients", "x", "y"},
		`chaos run takes one or more NAME|FILE, got 0 ar`: {"chaos", "run"},
		"--token-file: open /dev/null/none":               {"--token-file", "/dev/null/none", "version"},
		"--tls-dir: certificates: open /dev/null/none":    {"--tls-dir", "/dev/null/none", "version"},
		"--recording: open /dev/null/none":                {"console", "--recording", "/dev/null/none"},
		"there is no playground in /dev/null":             {"playground", "/dev/null"},
		`--listen "0.0.0.0:1": want a loopback address`:   {"playground", "--listen", "0.0.0.0:1"},
		"--dsn-file: open /dev/null/none":                 {"lead", "--dsn-file", "/dev/null/none", "--", "true"},
		`--html "/dev/null/none/x": no folder`:            {"chaos", "run", "f01", "--html", "/dev/null/none/x"},
		"--html: open /dev: is a directory":               {"lab", "elections", "--html", "/dev"},
		"--report: open /dev: is a directory":             {"soak", "--report", "/dev"},
		"ports is 70000: want 1 to 65000":                 {"--dir", t.TempDir(), "up", "--ports", "70000"},
		`--report "/dev/null/none/x": no folder`:          {"soak", "--report", "/dev/null/none/x"},
	} {
		r := tool(t, args...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Contains(t, r.stderr, want, "%v", args)
		assert.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %q", r.stderr)
		assert.Empty(t, r.stdout)
	}
}

func TestReport_FileIsNotTouchedBeforeTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.html")
	require.Equal(t, exitUsage, tool(t, "chaos", "run", "no-such-scenario", "--html", file).code)
	assert.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(file, []byte("that of an earlier run"), 0o600))
	require.Equal(t, exitUsage, tool(t, "chaos", "run", "no-such-scenario", "--html", file).code)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "that of an earlier run", string(text))
}

func TestNoCluster_ErrorNamesUp(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"ps"}, {"leader"}, {"kill", "meta-1"}, {"events"}, {"logs", "meta-1"}, {"slots"}} {
		r := tool(t, append([]string{"--dir", dir}, args...)...)
		assert.Equal(t, exitFailed, r.code, "%v", args)
		assert.Contains(t, r.stderr, "conclave up", "%v", args)
	}
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "down").code, "there is nothing to stop")
}

func TestNoMetaAnswers_Fails(t *testing.T) {
	for _, command := range []string{"leader", "console"} {
		r := tool(t, "--meta", "127.0.0.1:1", command)
		assert.Equal(t, exitFailed, r.code, command)
		assert.Contains(t, r.stderr, "127.0.0.1:1", command)
		assert.Empty(t, r.stdout, command)
	}
}

func TestLeader_ShowsTheLeader(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"GET /v1/leader": someLeader})
	r := tool(t, "--meta", meta, "leader")
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "meta-2 leads term 7")
	r = tool(t, "--meta", "127.0.0.1:1,"+meta, "--json", "leader")
	require.Equal(t, exitDone, r.code, r.stderr)
	var got metaclient.LeaderInfo
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	assert.Equal(t, someLeader, got)
	assert.Contains(t, r.stdout, `"leaseRemainingMs":2700`)
}

func TestLeader_ExitCodesWithoutALeader(t *testing.T) {
	meta := fakeMeta(t, map[string]any{"GET /v1/leader": wire.NotLeader("", "")})
	assert.Equal(t, exitNoLeader, tool(t, "--meta", meta, "leader").code)
	assert.Equal(t, exitTimedOut, tool(t, "--meta", meta, "leader", "--wait", "50ms").code)

	meta = fakeMeta(t, map[string]any{"GET /v1/leader": someLeader})
	assert.Equal(t, exitNoLeader, tool(t, "--meta", meta, "leader", "--after", "7").code)
	assert.Equal(t, exitTimedOut, tool(t, "--meta", meta, "leader", "--after", "7", "--wait", "50ms").code)
	assert.Equal(t, exitDone, tool(t, "--meta", meta, "leader", "--after", "6", "--wait", "50ms").code)
}

func TestLeader_IsNotDelayedByAMetaThatHangs(t *testing.T) {
	hang := make(chan struct{})
	stuck := fakeMeta(t, map[string]any{"GET /v1/leader": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang })})
	t.Cleanup(func() { close(hang) })
	start := time.Now()
	r := tool(t, "--meta", stuck+","+fakeMeta(t, map[string]any{"GET /v1/leader": someLeader}), "leader")
	assert.Equal(t, exitDone, r.code, r.stderr)
	assert.Less(t, time.Since(start), leaderWait, "that one would have been waited for so long")
}

func TestSlots_EqualOnesShareARow(t *testing.T) {
	info := metaclient.SlotsInfo{Stable: true}
	for i := range 8 {
		leader := "data-1"
		if i == 3 {
			leader = "data-2"
		}
		info.Slots = append(info.Slots, metaclient.SlotInfo{ID: i, Leader: leader, Followers: []string{"data-3"}, State: "stable"})
	}
	r := tool(t, "--meta", fakeMeta(t, map[string]any{"GET /v1/slots": info}), "slots")
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Regexp(t, `data-1 +data-3 +stable +- +7 +0-2,4-7`, r.stdout)
	assert.Regexp(t, `data-2 +data-3 +stable +- +1 +3`, r.stdout)
}

func TestChanges_SendTheTokenAndKeepErrorCodes(t *testing.T) {
	var shown string
	meta := fakeMeta(t, map[string]any{
		"PUT /v1/switches/{key}": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			shown = r.Header.Get("Authorization")
			serve.WriteJSON(w, http.StatusOK, wire.Switch{Key: r.PathValue("key"), Value: "on", Version: 2})
		}),
		"PUT /v1/blacklist/data-1": wire.Errorf(wire.CodeUnauthorized, "this request needs the header"),
		"PUT /v1/blacklist/data-9": wire.Errorf(wire.CodeNotFound, `no node is named "data-9"`),
		"GET /v1/switches":         []wire.Switch{{Key: "arrange", Value: "on"}},
	})
	r := tool(t, "--meta", meta, "--token", "s3cret", "--json", "switch", "set", "stop-push", "on")
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, "Bearer s3cret", shown)
	assert.JSONEq(t, `{"key":"stop-push","value":"on","version":2}`, r.stdout)

	r = tool(t, "--meta", meta, "blacklist", "add", "data-1")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "--token")
	r = tool(t, "--meta", meta, "blacklist", "add", "data-9")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "data-9")
	r = tool(t, "--meta", meta, "switch", "get", "warp")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, `"warp"`)
}

func TestEvents_AreMergedByTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	clockOf := func(ms *int) func() time.Time {
		return func() time.Time { *ms += 10; return at.Add(time.Duration(*ms) * time.Millisecond) }
	}
	early, late := 0, 5
	one, two := serve.NewEvents("meta-1", clockOf(&early)), serve.NewEvents("data-1", clockOf(&late))
	for range 3 {
		one.Add(wire.Event{Type: "leader.elected", Text: "first"})
		two.Add(wire.Event{Type: "slot.serving", Text: "second"})
	}
	data := fakeMeta(t, map[string]any{"GET /v1/events": http.HandlerFunc(two.ServeHTTP)})
	meta := fakeMeta(t, map[string]any{
		"GET /v1/events": http.HandlerFunc(one.ServeHTTP),
		"GET /v1/nodes":  []metaclient.NodeInfo{{Name: "data-1", Role: "data", Address: data}},
	})
	r := tool(t, "--meta", meta, "--json", "events")
	require.Equal(t, exitDone, r.code, r.stderr)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, lines, 6)
	for i, line := range lines {
		var e wire.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		assert.Equal(t, []string{"meta-1", "data-1"}[i%2], e.Node)
	}
}

func TestSignalFlags(t *testing.T) {
	assert.Equal(t, []string{"--dir", "x", "kill", "leader", "--signal=9"}, signalFlags([]string{"--dir", "x", "kill", "leader", "-9"}))
	assert.Equal(t, []string{"kill", "--signal=STOP", "data-1"}, signalFlags([]string{"kill", "-STOP", "data-1"}))
	assert.Equal(t, []string{"events", "-f"}, signalFlags([]string{"events", "-f"}))
}

func TestRanges(t *testing.T) {
	assert.Equal(t, "0-2,5,7-8", ranges([]int{0, 1, 2, 5, 7, 8}))
	assert.Equal(t, "", ranges(nil))
}
