package meta

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// slowHistory takes 50 ms for each query, and counts them.
type slowHistory struct {
	mu                   sync.Mutex // guards the rest
	queries, now, atOnce int
}

func (h *slowHistory) Before(_ context.Context, _ uint64, limit int) ([]conclavesql.Election, error) {
	h.mu.Lock()
	h.queries, h.now = h.queries+1, h.now+1
	h.atOnce = max(h.atOnce, h.now)
	term := uint64(h.queries)
	h.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	h.mu.Lock()
	h.now--
	h.mu.Unlock()
	return make([]conclavesql.Election, limit, limit+int(term)), nil
}

// 400 readers that ask without a pause cause one query at a time.
func TestElections_ReadersShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHistory{}
		e := &elections{history: h}
		var readers sync.WaitGroup
		answers := 0
		for range 400 {
			readers.Go(func() {
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					list, err := e.read(t.Context(), 99, 7)
					require.NoError(t, err)
					assert.Len(t, list, 7)
					h.mu.Lock()
					answers++
					h.mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		readers.Wait()
		assert.Equal(t, 1, h.atOnce)
		assert.LessOrEqual(t, h.queries, 16, "a second has room for one each 70 ms")
		assert.Greater(t, answers, 1000)

		// A reader that gives up ends no query that others wait for.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Second)
		_, err := e.read(ctx, 99, 7)
		assert.NoError(t, err)
		other, err := e.read(t.Context(), 99, 9)
		require.NoError(t, err)
		assert.Len(t, other, 9, "of another limit")
	})
}
