package hostile_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
)

// quietFor is how long the honest are measured under the control, between two attacks.
const quietFor = 1250 * time.Millisecond

// tries is how often an attack is played until the honest waited no longer than they
// may: what other processes of the machine cause does not come again.
const tries = 3

// Hostile clients with the tokens that they could have harm no honest one.
func TestHostile_ClientsHarmNoHonestOne(t *testing.T) {
	if !long.All() {
		t.Skip("it measures what honest clients notice and wants the machine for itself: make test-hostile")
	}
	suite(t, start(t, false), attacks)
}

// The same of those that attack the TLS of a cluster.
func TestHostile_ClientsOfTLSHarmNoHonestOne(t *testing.T) {
	if !long.All() {
		t.Skip("as TestHostile_ClientsHarmNoHonestOne")
	}
	suite(t, start(t, true), attacksOnTLS)
}

// suite plays attacks while the honest work.
func suite(t *testing.T, w *world, attacks []attack) {
	ctx, stop := context.WithCancel(t.Context())
	wait := w.work(ctx)
	defer func() {
		stop()
		wait()
	}()
	time.Sleep(time.Second) // the first readings are of a cluster that has just started
	w.latency.take()
	time.Sleep(time.Second)
	t.Logf("quiet: %s", w.latency.take())
	table := []string{"| attack | p99 before | during | after | ratio | worst |", "| --- | --- | --- | --- | --- | --- |"}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			for try := 1; !w.played(ctx, t, a, try == tries, &table); try++ {
			}
			w.check(t)
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
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

// played plays an attack after a measurement under the control, and reports whether the
// honest waited no longer during the attack than they may, compared with that. The last
// try fails otherwise.
func (w *world) played(ctx context.Context, t *testing.T, a attack, last bool, table *[]string) bool {
	if a.before != nil {
		a.before(ctx, t, w)
	}
	before := w.control(ctx, t, a.as)
	wait := w.attacker(ctx, t, a.name)
	output, err := wait()
	during := w.latency.take()
	require.NoError(t, err, "%s", output)
	if a.after != nil {
		a.after(ctx, t, w)
	}
	after := w.control(ctx, t, a.as)
	limit, most, allowed := noise, worst, float64(mostRatio)
	if raced {
		limit, most, allowed = limit*racedTimes, most*racedTimes, allowed*racedTimes // the control takes no longer than without
	}
	ratio := float64(during.usual) / float64(max(before.usual, 1))
	*table = append(*table, fmt.Sprintf("| %s | %s | %s | %s | %.1f | %s |", a.name, ms(before.usual), ms(during.usual), ms(after.usual), ratio, ms(during.p99)))
	t.Logf("before %s; during %s; after %s; ratio %.1f", before, during, after, ratio)
	if during.pushes > 0 && (ratio <= allowed || during.usual <= limit) && during.p99 <= most {
		return true
	}
	if last {
		assert.Fail(t, "the honest wait too long", "ratio %.1f, p99 %s", ratio, during.p99)
	}
	return last
}

// control measures the honest under a load that harms nobody, or under one of loads.
func (w *world) control(ctx context.Context, t *testing.T, load string) measurement {
	if load == "" {
		load = harmless
		limited, end := context.WithTimeout(ctx, quietFor)
		defer end()
		ctx = limited
	}
	w.latency.take()
	wait := w.attacker(ctx, t, load)
	if output, err := wait(); load != harmless { // which is killed
		require.NoError(t, err, "%s", output)
	}
	return w.latency.take()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func (m measurement) String() string {
	return fmt.Sprintf("p99 usually %s, of all %d pushes %s", ms(m.usual), m.pushes, ms(m.p99))
}
