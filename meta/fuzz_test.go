package meta

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/slot"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// FuzzStoredState reads arbitrary rows, as from a database that was restored or
// edited. What is read is a valid table or none, has the row's epoch, and is the
// same after it was stored again.
func FuzzStoredState(f *testing.F) {
	one := conclave.Epoch{Term: 1, Seq: 1}
	live := []conclave.NodeID{{Name: "data-1", Incarnation: "i"}, {Name: "data-2", Incarnation: "j"}}
	table, err := slot.New(4, slot.Input{Next: one, Live: live, Replicas: 2})
	require.NoError(f, err)
	text, err := encode(tableBody{2, table.Slots})
	require.NoError(f, err)
	kinds := []conclavesql.Kind{
		conclavesql.KindTable, conclavesql.KindMembers, conclavesql.KindBlacklist, conclavesql.KindSwitches, conclavesql.KindConfig, conclavesql.KindFreeze,
	}
	f.Add(byte(0), text)
	f.Add(byte(0), `{"nodes":[],"slots":[{"leader":-1}]}`)
	f.Add(byte(1), `{"list":[{"node":{"name":"data-1","incarnation":"i"},"role":"data","address":"a:1"}],"lost":[{}]}`)
	f.Add(byte(2), `{"entries":[{"name":"data-1","reason":"operator"}]}`)
	f.Add(byte(3), `{"list":[{"key":"arrange","value":"off","version":1}]}`)
	f.Add(byte(4), `{"list":[{"id":"a","value":"b","epoch":"1.1"}]}`)
	f.Add(byte(5), `{"frozen":true,"of":["data-1"]}`)
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		a, row := &arranger{}, conclavesql.State{Kind: kinds[int(kind)%len(kinds)], Body: body, Term: 3, Seq: 4}
		if err := a.decode(row); err != nil {
			assert.ErrorContains(t, err, "3.4")
			return
		}
		epoch := conclave.Epoch{Term: 3, Seq: 4}
		if row.Kind == conclavesql.KindTable && len(a.state.Table.Slots) > 0 {
			require.NoError(t, a.state.Table.Validate())
			assert.Equal(t, epoch, a.state.Table.Epoch)
			again, err := encode(tableBody{a.state.Replicas, a.state.Table.Slots})
			require.NoError(t, err)
			var b tableBody
			require.NoError(t, json.Unmarshal([]byte(again), &b))
			assert.Equal(t, a.state.Table, slot.Table{Epoch: epoch, Slots: b.Slots})
		}
		// Every node reads what the leader sends of it.
		view := wire.NewView()
		_, err := view.Apply(wire.StateOut(a.state, nil))
		assert.NoError(t, err)
	})
}

// FuzzBody reads arbitrary bodies of requests for acts. What is refused is
// refused with a short error.
func FuzzBody(f *testing.F) {
	for _, body := range []string{"", "{}", `{"value":"on"}`, `{"value":1}`, `{"other":""}`, "[", `{"value":"` + strings.Repeat("x", maxBody), `{"` + strings.Repeat("k", 1000) + `":1}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var in metaclient.SwitchRequest
		if err := readBody(httptest.NewRequest("PUT", "/v1/switches/arrange", strings.NewReader(body)), &in); err != nil {
			assert.Contains(t, []wire.Code{wire.CodeBadRequest, wire.CodeTooLarge}, wire.CodeOf(err))
			assert.Less(t, len(err.Error()), 512)
			return
		}
		_ = checkSwitch("arrange", in.Value)
	})
}
