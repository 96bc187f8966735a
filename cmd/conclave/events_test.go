package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
	"conclave/meta/metaclient"
	"conclave/wire"
	"conclave/wire/serve"
)

// drainEvents are two data nodes of which one hands eight slots over to the
// other, ten milliseconds apart, and a meta with an older event.
func drainEvents(t *testing.T) (meta string, add func(wire.Event)) {
	base, passed := time.Now().Add(-time.Minute), time.Duration(0)
	now := func() time.Time { return base.Add(passed) }
	one, two, three := serve.NewEvents("data-1", now), serve.NewEvents("data-2", now), serve.NewEvents("meta-1", now)
	three.Add(wire.Event{Type: "leader.elected", Term: 3, Text: "meta-1 leads"})
	passed = 50 * time.Second
	for i := range 8 {
		passed += 10 * time.Millisecond
		one.Add(wire.Event{Type: "slot.finished", Term: 3, Text: fmt.Sprintf("slot %d finished for data-2", i)})
		two.Add(wire.Event{Type: "slot.serving", Term: 3, Text: fmt.Sprintf("slot %d served", i)})
	}
	serve := func(e *serve.Events) map[string]any {
		return map[string]any{"GET /v1/events": http.HandlerFunc(e.ServeHTTP), "GET /healthz": map[string]string{"incarnation": fmt.Sprintf("%p", e)}}
	}
	routes := serve(three)
	routes["GET /v1/nodes"] = []metaclient.NodeInfo{
		{Name: "data-1", Role: "data", Address: fakeMeta(t, serve(one))}, {Name: "data-2", Role: "data", Address: fakeMeta(t, serve(two))},
	}
	return fakeMeta(t, routes), three.Add
}

func TestEvents_ADrainIsOneLineForEachNode(t *testing.T) {
	meta, _ := drainEvents(t)
	lines := func(args ...string) []string {
		r := tool(t, append([]string{"--meta", meta, "events"}, args...)...)
		require.Equal(t, exitDone, r.code, r.stderr)
		_, rows, _ := strings.Cut("\n"+r.stdout, "TEXT\n") // below the head, with --json all
		return strings.Split(strings.TrimSpace(cmp.Or(rows, r.stdout)), "\n")
	}
	assert.Regexp(t, `^TIME +NODE +TERM +TYPE +TEXT\n`, tool(t, "--meta", meta, "events").stdout)
	all := lines()
	require.Len(t, all, 3, all)
	assert.Contains(t, all[0], "leader.elected")
	assert.Regexp(t, `data-1 +3 +slot\.finished +8 times in 70 ms: slot 0 finished for data-2 \.\.\. slot 7 finished for data-2$`, all[1])
	assert.Regexp(t, `data-2 +3 +slot\.serving +8 times`, all[2])
	assert.Len(t, lines("--each"), 17)
	assert.Len(t, lines("--json"), 17)
	assert.Len(t, lines("--type", "leader"), 1)
	assert.Len(t, lines("--type", "slot.serving,leader.elected"), 2)
	assert.Len(t, lines("--node", "data-1", "--each"), 8)
	assert.Len(t, lines("--since", "30s"), 2)
	r := tool(t, "--meta", meta, "events", "--node", "data-1,nope")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, `unknown node "nope" (want one of data-1, data-2)`)
}

// With -f the kept events come first, sorted, and each only once.
func TestEvents_FollowBeginsWithTheSortedPast(t *testing.T) {
	meta, add := drainEvents(t)
	ctx, stop := context.WithCancel(t.Context())
	var out clitest.Output
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--meta", meta, "events", "-f"}, &out, &stderr) }()
	require.Eventually(t, func() bool { return strings.Count(out.String(), "\n") == 4 }, 20*time.Second, 10*time.Millisecond)
	add(wire.Event{Type: "leader.resigned", Term: 3, Text: "resigned"})
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "leader.resigned") }, 20*time.Second, 10*time.Millisecond)
	stop()
	assert.Equal(t, exitDone, <-code, stderr.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5, out.String())
	for i, want := range []string{"TEXT", "leader.elected", "slot.finished", "slot.serving", "leader.resigned"} {
		assert.Contains(t, lines[i], want)
	}
}

func TestEventFilter_TypeIsAWordOrAll(t *testing.T) {
	f := eventFilter{types: []string{"slot"}}
	assert.True(t, f.wants(wire.Event{Type: "slot.serving"}))
	assert.False(t, f.wants(wire.Event{Type: "slots"}))
}

// Each type of event that a node writes may be given to events --type.
func TestEvents_TypesAreThoseOfTheTree(t *testing.T) {
	written, found := regexp.MustCompile(`(?:Type: *|\.event\((?:hclog\.[A-Z][a-z]+, )?)"([a-z]+\.[a-z-]+)"`), 0
	for _, dir := range []string{"meta", "data", "session"} {
		require.NoError(t, filepath.WalkDir("../../"+dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range written.FindAllSubmatch(text, -1) {
				found++
				assert.Contains(t, eventTypes, string(m[1]), path)
			}
			return err
		}))
	}
	assert.Greater(t, found, 30)
}
