package session

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// Lists are searched by name, by client, by its address and by value, in pages too, and a
// name may be whole.
func TestAdmin_ListsAreSearched(t *testing.T) {
	a := newAdmin(t)
	now := time.Now()
	o := &registry.Owner{Client: "c", Name: "web-7", Address: "10.9.8.7:1234", Number: adminRows + 1}
	o.Renew(now, time.Minute)
	for _, data := range []string{"d1#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", "d1#@#DEFAULT_INSTANCE_ID#@#other"} {
		_, err := a.registry.Put(o, &wirev1.Publisher{Id: "x" + data, DataInfoId: data, Version: 3, Values: []string{"10.1.1.1:80", strings.Repeat("y", 2000)}}, now)
		require.NoError(t, err)
		_, err = a.registry.Subscribe(o, &wirev1.Subscription{Id: "s" + data, DataInfoId: data}, now)
		require.NoError(t, err)
	}
	as := func(r *http.Request) *http.Request { return r }
	for query, want := range map[string][2]int{
		"match=web-7":         {2, 2},
		"match=10.9.8.7":      {2, 2},
		"match=10.1.1.1":      {2, 0},
		"match=other":         {1, 1},
		"match=nothing":       {0, 0},
		"match=d2%23":         {adminRows/30 + 1, adminRows/30 + 1},
		"dataId=d1":           {adminRows/30 + 3, adminRows/30 + 3},
		"dataId=d1&match=web": {2, 2},
		"dataId=d1%23%40%23":  {0, 0},
		"dataId=d":            {0, 0},
		"dataId=d1%23@%23DEFAULT_INSTANCE_ID%23@%23other": {1, 1},
	} {
		rows, _ := a.read(t, a.getPublishers, "/v1/publishers?limit=20&"+query, as)
		assert.Len(t, rows, want[0], query)
		rows, _ = a.read(t, a.getSubscribers, "/v1/subscribers?limit=20&"+query, as)
		assert.Len(t, rows, want[1], query)
	}

	brief, _ := a.read(t, a.getPublishers, "/v1/publishers?brief=true&match=other", as)
	require.Len(t, brief, 1)
	assert.Equal(t, hiddenID("xd1#@#DEFAULT_INSTANCE_ID#@#other"), brief[0]["id"])
	assert.Equal(t, []any{"10.1.1.1:80"}, brief[0]["values"])
	assert.EqualValues(t, 1, brief[0]["moreValues"])
	w := httptest.NewRecorder()
	a.getPublishers(w, httptest.NewRequest(http.MethodGet, "/v1/publishers?brief=true&match=web&limit=1", nil))
	assert.NotContains(t, w.Header().Get("Link"), "xd1", "the id is not in the link, either")
}
