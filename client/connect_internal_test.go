package client

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that is asked to move tries the named session first.
func TestMove_TriesTheNamedSessionFirst(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1"}})
	require.NoError(t, err)
	c.advertised = []string{"a:1", "b:1", "c:1", "d:1"}
	for range 20 {
		assert.Equal(t, "c:1", c.candidates("a:1", "c:1")[0])
		assert.NotContains(t, c.candidates("a:1", "x:1"), "x:1", "only sessions that it was sent")
	}
}

// The sessions of a list none of which took the client are asked for a while, after those
// that are configured; what Resolve returns is newer.
func TestSeek_FormerSessionsAreAskedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Sessions: []string{"a:1"}})
		require.NoError(t, err)
		c.advertised = []string{"b:1"}
		(&search{c: c}).endRound()
		assert.Equal(t, []string{"a:1", "b:1"}, c.candidates("", ""))
		c.config.Resolve = func(context.Context) ([]string, error) { return nil, nil }
		assert.Equal(t, []string{"a:1"}, c.candidates("", ""))
		c.config.Resolve = nil
		time.Sleep(formerFor + 1)
		assert.Equal(t, []string{"a:1"}, c.candidates("", ""))
	})
}

// The more sessions there are, the sooner the next one is asked, but not sooner than
// after leastStagger.
func TestSeek_StaggerHasAFloor(t *testing.T) {
	for n, want := range map[int]time.Duration{1: time.Second, 2: time.Second, 4: 500 * time.Millisecond, 8: 250 * time.Millisecond, 100: 250 * time.Millisecond} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("s%d:1", i))
		}
		c, err := New(Config{Sessions: all})
		require.NoError(t, err)
		s := &search{c: c}
		s.newRound()
		assert.Equal(t, want, s.stagger, n)
		c.lease = usualLease / 5
		s.left = nil
		s.newRound()
		assert.Equal(t, want/5, s.stagger, n)
	}
}

// A new round asks those that were silent last.
func TestSeek_SilentSessionsAreAskedLast(t *testing.T) {
	c, err := New(Config{Sessions: []string{"a:1", "b:1", "c:1"}})
	require.NoError(t, err)
	s := &search{c: c, limits: map[string]time.Duration{"a:1": welcomeMost, "b:1": welcomeFirst, "c:1": welcomeFirst}}
	for range 20 {
		s.left = nil
		s.newRound()
		assert.Equal(t, "a:1", s.left[2])
	}
}
