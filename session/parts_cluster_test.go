package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
)

// A list that is larger than any message reaches its subscribers, also those that
// subscribe later, and so does a change of it.
func TestParts_ListLargerThanAMessageIsPushed(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		publisher, early := c.client("publisher", "session-1"), c.watch(c.client("early", "session-1"), "svc")
		var all []string
		var pubs []*client.Publication
		for len(all)*60_000 < wire.MaxMessage+wire.PartsFrom {
			var values []string
			for range 30 {
				values = append(values, fmt.Sprintf("%d:%s", len(all)+len(values), strings.Repeat("x", 60_000)))
			}
			pubs, all = append(pubs, c.publish(publisher, "svc", values...)), append(all, values...)
		}
		for _, p := range pubs {
			require.NoError(t, p.Stored(c.ctx))
		}
		late := c.watch(c.client("late", "session-2"), "svc")
		c.eventually("both see the whole list", func() bool { return len(early.last()) == len(all) && len(late.last()) == len(all) })
		assert.True(t, early.shows(all...)())
		assert.True(t, late.shows(all...)())

		last := pubs[len(pubs)-1]
		n := len(all) - 30
		require.NoError(t, last.Update([]string{"changed"}))
		c.eventually("both see the change", func() bool {
			return early.shows(append(slices.Clone(all[:n]), "changed")...)() && late.shows(append(slices.Clone(all[:n]), "changed")...)()
		})
		time.Sleep(time.Second)
		for _, h := range []*history{early, late} {
			for _, d := range h.all() {
				assert.Zero(t, len(d.Values)%30*(len(d.Values)-n-1), "a part of a list is not shown: %d values", len(d.Values))
			}
		}
	})
}
