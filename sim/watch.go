package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
)

// Watch is one subscriber's history, judged as it grows: versions must rise
// (I11), and from the moment at which Full was called no push may miss a value
// of what live publishers offer (I7).
type Watch struct {
	c      *Cluster
	dataID string

	mu     sync.Mutex // guards the rest
	last   conclave.Datum
	pushes int
	must   []string // values that no push may miss
}

// Publish publishes one value under a dataId and waits until data has it.
func (c *Cluster) Publish(cl *client.Client, dataID, value string) *client.Publication {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := cl.Publish(ctx, dataID, []string{value})
	require.NoError(c.t, err)
	require.NoError(c.t, p.Stored(ctx), "%s=%s", dataID, value)
	return p
}

// Subscribe watches a dataId through a client.
func (c *Cluster) Subscribe(cl *client.Client, dataID string) *Watch {
	w := &Watch{c: c, dataID: dataID}
	_, err := cl.Subscribe(dataID, client.OnPush(w.push))
	require.NoError(c.t, err)
	return w
}

func (w *Watch) push(d conclave.Datum) {
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Greater(w.c.t, d.Version, w.last.Version, "I11: versions of %s rise", w.dataID)
	for _, v := range w.must {
		if w.c.over.Load() {
			break
		}
		assert.Contains(w.c.t, d.Values, v, "I7: a push of %s at version %d misses a live publisher", w.dataID, d.Version)
	}
	w.last = d
	w.pushes++
}

// Full says that these values must be in every push from now on.
func (w *Watch) Full(values ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.must = slices.Clone(values)
}

// Last is the newest push.
func (w *Watch) Last() conclave.Datum {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Pushes counts them.
func (w *Watch) Pushes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pushes
}

// Sees waits until the newest push has just these values, in any order.
func (w *Watch) Sees(limit time.Duration, values ...string) time.Duration {
	w.c.t.Helper()
	want := slices.Sorted(slices.Values(values))
	return w.c.Await(fmt.Sprintf("%s to be seen as %v", w.dataID, want), limit, func() bool {
		return w.Pushes() > 0 && slices.Equal(slices.Sorted(slices.Values(w.Last().Values)), want)
	})
}
