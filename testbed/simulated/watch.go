package simulated

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

// Watch records the pushes of one subscription and checks each one: versions
// must rise (I11), and after Full was called no push may lack one of its values
// (I7).
type Watch struct {
	s      *Stage
	dataID string

	mu     sync.Mutex // guards the fields below
	last   conclave.Datum
	pushes int
	must   []string // values that every push must have
}

// Publish publishes one value under a dataId and waits until a data node has
// stored it.
func (s *Stage) Publish(cl *Client, dataID, value string) *client.Publication {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := cl.Client.Publish(ctx, dataID, []string{value})
	require.NoError(s.t, err)
	require.NoError(s.t, p.Stored(ctx), "%s=%s", dataID, value)
	return p
}

// Subscribe subscribes a client to a dataId and watches its pushes.
func (s *Stage) Subscribe(cl *Client, dataID string) *Watch {
	w := &Watch{s: s, dataID: dataID}
	_, err := cl.Client.Subscribe(dataID, client.OnPush(w.push))
	require.NoError(s.t, err)
	return w
}

func (w *Watch) push(d conclave.Datum) {
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Greater(w.s.t, d.Version, w.last.Version, "I11: versions of %s rise", w.dataID)
	for _, v := range w.must {
		if w.s.isClosing() {
			break
		}
		assert.Contains(w.s.t, d.Values, v, "I7: a push of %s at version %d lacks a value of a live publisher", w.dataID, d.Version)
	}
	w.last = d
	w.pushes++
}

// Full requires these values in every push from now on.
func (w *Watch) Full(values ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.must = slices.Clone(values)
}

// Last returns the newest push.
func (w *Watch) Last() conclave.Datum {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Pushes returns the number of pushes.
func (w *Watch) Pushes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pushes
}

// Sees waits until the newest push has exactly these values, in any order, and
// returns how long that took.
func (w *Watch) Sees(limit time.Duration, values ...string) time.Duration {
	w.s.t.Helper()
	want := slices.Sorted(slices.Values(values))
	return w.s.Await(fmt.Sprintf("a push of %s with %v", w.dataID, want), limit, func() bool {
		return w.Pushes() > 0 && slices.Equal(slices.Sorted(slices.Values(w.Last().Values)), want)
	})
}
