package session

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session/registry"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// unlockedWriter is a reader's connection: whenever something is written to it, the
// registry and the clients must not be locked.
type unlockedWriter struct {
	*httptest.ResponseRecorder
	t      *testing.T
	a      *admin
	writes int
}

func (w *unlockedWriter) Write(b []byte) (int, error) {
	w.writes++
	if assert.True(w.t, w.a.registry.mu.TryLock(), "the registry is locked while an answer is written") {
		w.a.registry.mu.Unlock()
	}
	if assert.True(w.t, w.a.clients.mu.TryLock(), "the clients are locked while an answer is written") {
		w.a.clients.mu.Unlock()
	}
	return w.ResponseRecorder.Write(b)
}

const adminRows = 2000

// newAdmin returns the admin of a session with many clients, each with a registration
// and a subscription.
func newAdmin(t *testing.T) *admin {
	now := time.Now()
	r := registry.New(time.Minute, 0, nil)
	r.Resize(16, now)
	a := &admin{registry: &locked{Registry: r}, clients: &clients{open: map[*registry.Owner]*connection{}}}
	for i := range adminRows {
		o := &registry.Owner{Client: fmt.Sprint("c", i), Name: "name", Number: uint64(i + 1)}
		o.Renew(now, time.Minute)
		a.clients.open[o] = &connection{Owner: o, since: now}
		d, err := conclave.NewDataInfoID(fmt.Sprint("d", i%30), "", "")
		require.NoError(t, err)
		_, err = r.Put(o, &wirev1.Publisher{Id: fmt.Sprintf("p%d", i), DataInfoId: d.String(), Version: 1, Values: []string{"v"}}, now)
		require.NoError(t, err)
		_, err = r.Subscribe(o, &wirev1.Subscription{Id: "s", DataInfoId: d.String()}, now)
		require.NoError(t, err)
	}
	return a
}

// read reads a list page by page.
func (a *admin) read(t *testing.T, h http.HandlerFunc, next string, change func(*http.Request) *http.Request) (rows []map[string]any, pages int) {
	for next != "" {
		w := &unlockedWriter{httptest.NewRecorder(), t, a, 0}
		h(w, change(httptest.NewRequest(http.MethodGet, next, nil)))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var page []map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		assert.GreaterOrEqual(t, w.writes, len(page), "row by row")
		rows = append(rows, page...)
		next, _ = strings.CutSuffix(strings.TrimPrefix(w.Header().Get("Link"), "<"), `>; rel="next"`)
		pages++
	}
	return rows, pages
}

// No lock is held while a large list is sorted or written, whole or in pages.
func TestAdmin_ListsHoldNoLock(t *testing.T) {
	a := newAdmin(t)
	as := func(r *http.Request) *http.Request { return r }
	for path, h := range map[string]http.HandlerFunc{"/v1/publishers": a.getPublishers, "/v1/subscribers": a.getSubscribers, "/v1/clients": a.getClients} {
		whole, pages := a.read(t, h, path, as)
		assert.Len(t, whole, adminRows)
		assert.Equal(t, 1, pages)
		paged, pages := a.read(t, h, path+"?limit=300", as)
		assert.Equal(t, whole, paged, path)
		assert.Equal(t, 7, pages)
	}
	some, _ := a.read(t, a.getPublishers, "/v1/publishers?dataId=d1&limit=20", as)
	assert.Len(t, some, adminRows/30+1)

	seen := 0
	a.eachSlot(func(*registry.Registry, int) func() {
		assert.False(t, a.registry.mu.TryLock())
		return func() {
			seen++
			if assert.True(t, a.registry.mu.TryLock(), "keys are selected without the lock") {
				a.registry.mu.Unlock()
			}
		}
	})
	assert.Equal(t, 16, seen)
}

// Pages show a reader neither the ids of registrations nor links that contain them.
func TestAdmin_PagesOfReadersHideIDs(t *testing.T) {
	a := newAdmin(t)
	links := ""
	reader := func(r *http.Request) *http.Request {
		links += r.URL.String()
		return r.WithContext(rights.With(r.Context(), rights.Identity{Name: "r", Right: rights.Read}))
	}
	rows, pages := a.read(t, a.getPublishers, "/v1/publishers?limit=700", reader)
	assert.Len(t, rows, adminRows)
	assert.Equal(t, 3, pages)
	var ids []string
	for _, row := range rows {
		ids = append(ids, row["id"].(string))
		assert.Len(t, row["id"], 16)
	}
	assert.True(t, slices.IsSortedFunc(rows, func(a, b map[string]any) int {
		key := func(row map[string]any) string {
			return fmt.Sprint(row["data"].(map[string]any)["dataId"], "#@#", row["id"])
		}
		return strings.Compare(key(a), key(b))
	}), "by name and id")
	assert.NotContains(t, links, "p7%")
	assert.Contains(t, links, ids[699])
	assert.Contains(t, ids, hiddenID("p7"))
}
