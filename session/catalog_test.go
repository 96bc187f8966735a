package session

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session/registry"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/admit"
)

// dataNodes answers the requests of a catalog to data nodes.
type dataNodes func(*http.Request) any

func (f dataNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := json.Marshal(f(r))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, err
}

// While a slot is not served, data nodes are asked for nothing but their slots, and with
// pauses. Names come without values.
func TestCatalog_AsksForNamesOnceAllSlotsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, epoch := time.Now(), conclave.Epoch{Term: 1, Seq: 1}
		slots, names := 0, []string{}
		c := &catalog{
			token: func(string) string { return "" }, view: wire.NewView(), listings: admit.New(catalogAtOnce, 0),
			registry: &locked{Registry: registry.New(time.Minute, 0, nil)},
			http: &http.Client{Transport: dataNodes(func(r *http.Request) any {
				if r.URL.Path == "/v1/datums" {
					names = append(names, r.URL.RawQuery)
					return []map[string]any{{"dataId": "svc", "instance": "i", "group": "g", "version": 7, "publishers": 1}}
				}
				slots++
				state := slot.Migrating
				if time.Since(start) > time.Second {
					state = slot.Serving
				}
				return map[string]any{"slots": []map[string]any{{"id": 0, "state": state, "leaderEpoch": epoch}}}
			})},
		}
		c.registry.Resize(1, start)
		c.registry.Adopt(0, epoch, "data-1", start)
		c.view.Set(wire.State{Table: slot.Table{Epoch: epoch, Slots: []slot.Slot{{LeaderEpoch: epoch}}}})
		rows, more, err := c.page(t.Context(), "web", "", "", 10, false)
		require.NoError(t, err)
		assert.Len(t, rows, 1)
		assert.False(t, more)
		require.Len(t, names, 1)
		assert.Contains(t, names[0], "values=false")
		assert.LessOrEqual(t, slots, 6, "the pauses grow")
	})
}
