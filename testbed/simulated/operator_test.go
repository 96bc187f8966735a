package simulated

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/testbed"
)

// What the tool reads, and the HTTP endpoints of every role.
func TestOperator_ReadsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		require.NoError(t, c.Open(t.Context(), testbed.Size{Seed: 13}, nil))
		defer func() { assert.NoError(t, c.Close(context.Background())) }()
		seen := c.Observe(t.Context())
		for began := time.Now(); seen.Leads != 1 || len(seen.Ready) < 9 || len(seen.Table.Slots) == 0 || !seen.Table.StableAll(); seen = c.Observe(t.Context()) {
			require.Less(t, time.Since(began), 10*time.Second)
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, c.operate(t.Context(), "", func(ctx context.Context, tool *metaclient.Admin) error {
			l, err := tool.Leader(ctx)
			require.NoError(t, err)
			assert.Equal(t, seen.Leader, l.Leader)
			assert.Equal(t, seen.Term, l.Term)
			elections, err := tool.Elections(ctx)
			require.NoError(t, err)
			assert.Equal(t, seen.Leader, elections[0].Owner)
			slots, err := tool.Slots(ctx)
			require.NoError(t, err)
			assert.Len(t, slots.Slots, 16)
			assert.True(t, slots.Stable)
			nodes, err := tool.Nodes(ctx, "")
			require.NoError(t, err)
			assert.Len(t, nodes, 8)
			black, err := tool.Blacklist(ctx)
			require.NoError(t, err)
			assert.Empty(t, black)
			switches, err := tool.Switches(ctx)
			require.NoError(t, err)
			assert.Len(t, switches, 5)
			return nil
		}))
		client := http.Client{Transport: &http.Transport{DialContext: c.net.Host("reader").DialContext, DisableKeepAlives: true}}
		defer c.net.Kill("reader")
		for _, url := range []string{
			"meta-1:9615/leaderz", "meta-1:9615/healthz", "meta-2:9615/readyz", "meta-3:9615/metrics", "meta-1:9615/version",
			"data-1:9622/readyz", "data-1:9622/v1/slots", "data-1:9622/metrics",
			"session-1:9603/readyz", "session-1:9603/metrics", "session-1:9603/v1/clients", "session-1:9603/v1/publishers", "session-1:9603/v1/subscribers",
		} {
			res, err := client.Get("http://" + url)
			if assert.NoError(t, err, url) {
				body, err := io.ReadAll(res.Body)
				assert.NoError(t, err, url)
				assert.NotEmpty(t, body, url)
				res.Body.Close()
				if url != "meta-1:9615/leaderz" || seen.Leader == "meta-1" {
					assert.Equal(t, http.StatusOK, res.StatusCode, "%s: %s", url, body)
				}
			}
		}
	})
}

// An act that no cluster knows is refused, and so is a wrong address of a meta.
func TestDo_RefusesWhatItCannotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		require.NoError(t, c.Open(t.Context(), testbed.Size{Seed: 14, Metas: 1}, nil))
		defer func() { assert.NoError(t, c.Close(context.Background())) }()
		for _, a := range []testbed.Action{{Verb: "dance"}, {Verb: testbed.StartWrong, Node: "meta-1"}} {
			assert.ErrorIs(t, c.Do(t.Context(), a), testbed.ErrUnsupported)
		}
	})
}
