package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// forging is a text that begins a line of its own, clears the screen and reverses
// what follows.
const forging = "x\n00:00:00.000;forged\r\x1b[2J\u009b2J\u202e\u2066\u2028\ufeff\x00"

// clusterWith is a meta of a cluster in which every text is s.
func clusterWith(t *testing.T, s string) (meta string) {
	id := map[string]any{"dataId": "demo", "instance": s, "group": s}
	session := fakeMeta(t, map[string]any{
		"GET /v1/publishers":  []any{map[string]any{"id": "p1", "data": id, "version": 1, "values": []string{s}, "client": s, "address": s}},
		"GET /v1/subscribers": []any{map[string]any{"dataId": "demo", "instance": s, "group": s, "id": "s1", "client": s, "address": s, "version": 1, "values": 1}},
		"GET /v1/clients":     []any{map[string]any{"client": "c1", "name": s, "address": s}},
	})
	events := serve.NewEvents(s, time.Now)
	events.Add(wire.Event{Type: s, Term: 1, Text: s})
	effect := metaclient.Effect{Effect: s}
	return fakeMeta(t, map[string]any{
		"GET /v1/leader":            metaclient.LeaderInfo{Leader: s, Address: s, Term: 1, Cause: s},
		"GET /v1/elections":         []metaclient.Election{{Term: 1, Owner: s, Previous: s, Cause: s}},
		"GET /v1/slots":             metaclient.SlotsInfo{Protected: true, Reason: s, Slots: []metaclient.SlotInfo{{Leader: s, Followers: []string{s}, State: s, Successor: s}}},
		"GET /v1/nodes":             []metaclient.NodeInfo{{Name: "session-1", Role: "session", Address: session, Incarnation: s, State: metaclient.NodeState(s)}},
		"GET /v1/blacklist":         []metaclient.BlacklistInfo{{Name: s, Role: conclave.Role(s), Reason: s, By: s}},
		"GET /v1/switches":          []wire.Switch{{Key: s, Value: s}},
		"GET /v1/config":            []wire.ConfigValue{{ID: "demo", Value: s}},
		"GET /v1/events":            http.HandlerFunc(events.ServeHTTP),
		"GET /healthz":              map[string]string{"incarnation": s},
		"PUT /v1/config/{id}":       wire.ConfigValue{ID: s, Value: s},
		"PUT /v1/blacklist/{name}":  effect,
		"PUT /v1/switches/{key}":    wire.Errorf(wire.CodeBadRequest, "%s", s),
		"POST /v1/leader/resign":    effect,
		"DELETE /v1/config/{id}":    wire.Errorf(wire.CodeUnavailable, "%s", s),
		"DELETE /v1/blacklist/demo": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	})
}

// unprintable returns the first character of a text that has no glyph; 0 if there
// is none.
func unprintable(text string) rune {
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			return r
		}
	}
	return 0
}

// What clients and nodes choose cannot forge a line or command the terminal. With
// --json it is exact.
func TestOutput_EscapesTextOfOthers(t *testing.T) {
	honest, hostile := clusterWith(t, "x"), clusterWith(t, forging)
	for _, command := range []string{
		"leader", "election list", "slots", "nodes", "blacklist list", "blacklist remove demo", "switch list", "config list", "config get demo", "config set demo x", "events",
		"services", "describe demo", "clients", "blacklist add data-1 --dry-run", "resign --dry-run", "switch set a b", "config remove demo",
	} {
		args := strings.Fields(command)
		want, got := tool(t, append(args, "--meta", honest)...), tool(t, append(args, "--meta", hostile)...)
		assert.Equal(t, want.code, got.code, "%s: %s", command, got.stderr)
		if command != "config get demo" { // without a terminal it is as it was set
			assert.Equal(t, strings.Count(want.stdout+want.stderr, "\n"), strings.Count(got.stdout+got.stderr, "\n"), "%s\n%q", command, got)
			assert.Zero(t, unprintable(got.stdout+got.stderr), "%s\n%q", command, got)
		}
	}
	assert.Contains(t, tool(t, "--meta", hostile, "describe", "demo").stdout, `x\n00:00:00.000;forged\r\x1b[2J\u009b2J\u202e\u2066\u2028\ufeff\x00`)
	got := decode[description](t, tool(t, "--meta", hostile, "describe", "demo", "--json"))
	assert.Equal(t, []string{forging}, got.Publishers[0].Values)
	assert.Equal(t, forging+"\n", tool(t, "--meta", hostile, "config", "get", "demo").stdout)
}

func TestPrintPush_EscapesValues(t *testing.T) {
	var out bytes.Buffer
	d := conclave.Datum{Data: conclave.DataInfoID{DataID: "demo"}, Values: []string{forging}}
	assert.NoError(t, (&app{stdout: &out}).printPush(d))
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
	assert.Zero(t, unprintable(out.String()), out.String())
	assert.Contains(t, out.String(), `1 value: x\n00:00:00.000;forged`)
}

// A node logs names of clients and errors of others; the library of its log marks
// further lines of a value and escapes the rest.
func TestLog_EscapesTextOfOthers(t *testing.T) {
	var out bytes.Buffer
	hclog.New(&hclog.LoggerOptions{Output: &out}).Info("client connected", "name", forging, "error", errors.New(forging), "values", []string{forging})
	for line := range strings.Lines(out.String()) {
		assert.Regexp(t, `^  |client connected`, line)
	}
	assert.Zero(t, unprintable(out.String()), out.String())
}

func TestReport_SeparatesJoinedErrors(t *testing.T) {
	var out bytes.Buffer
	root := (&app{}).root()
	root.SetContext(t.Context())
	(&app{stderr: &out}).report(root, errors.Join(errors.New("no answer"), fmt.Errorf("close: %w", errors.New("too late"))))
	assert.Equal(t, "conclave: no answer; close: too late\n", out.String())
}

// A table that is wider than the screen has less space between its columns, and its
// last one is wrapped.
func TestTable_FitsTheWidth(t *testing.T) {
	table := newTable("NAME", "N", "VALUES")
	table.add("a", 1, strings.TrimSpace(strings.Repeat("12345678 ", 20)))
	var out bytes.Buffer
	table.write(&out)
	lines := strings.Split(out.String(), "\n")
	assert.Equal(t, "NAME  N  VALUES", lines[0])
	assert.Len(t, lines, 4)
	for _, line := range lines {
		assert.LessOrEqual(t, len(line), usualWidth)
	}
}
