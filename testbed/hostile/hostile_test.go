package hostile_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quietFor is how long the cluster is measured before the attacks.
const quietFor = 3 * time.Second

// Hostile clients with the tokens that they could have harm no honest one.
func TestHostile_ClientsHarmNoHonestOne(t *testing.T) {
	if os.Getenv("TEST_ALL") == "" {
		t.Skip("it measures what honest clients notice and wants the machine for itself: make test-hostile")
	}
	w := start(t)
	ctx, stop := context.WithCancel(t.Context())
	wait := w.work(ctx)
	defer func() {
		stop()
		wait()
	}()
	time.Sleep(quietFor / 3) // the first readings are of a cluster that has just started
	w.measured()
	time.Sleep(quietFor)
	quiet, pushes, memory := w.measured()
	require.Greater(t, pushes, 50)
	t.Logf("quiet: p99 %s of %d pushes, memory of session-1 %d MiB", quiet.Round(time.Millisecond), pushes, memory["session-1"]>>20)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			began := time.Now()
			a.play(ctx, t, w)
			time.Sleep(300 * time.Millisecond) // some pushes are measured, however short it was
			t.Logf("%s", time.Since(began).Round(100*time.Millisecond))
			w.check(t, quiet)
		})
	}
	w.complete(t)
	logs, err := w.cluster.LogFiles(t.Context())
	require.NoError(t, err)
	for name, file := range logs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, bad := range []string{"DATA RACE", "panic"} {
			if i := strings.Index(string(text), bad); i >= 0 {
				assert.Fail(t, bad+" in the log of "+name, string(text[i:min(i+4000, len(text))]))
			}
		}
	}
}
