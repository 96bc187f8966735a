package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rows is a list of texts, which are their own keys.
func rows(of []string) List[string, string] {
	return List[string, string]{
		Key: func(k string) string { return k },
		Keys: func(add func(...string)) {
			for some := range slices.Chunk(of, 7) {
				add(some...)
			}
		},
		Rows: func(keys []string) []string { return keys },
	}
}

// get requests a list, and returns it and the target of the link to the next page.
func get(t require.TestingT, l List[string, string], target string) (list []string, next string) {
	w := httptest.NewRecorder()
	WriteList(w, httptest.NewRequest(http.MethodGet, target, nil), l)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list), w.Body)
	if link := w.Header().Get("Link"); link != "" {
		next, _ = strings.CutSuffix(link[1:], `>; rel="next"`)
	}
	return list, next
}

func TestWriteList_PagesMakeTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SliceOfNDistinct(rapid.StringN(1, 10, -1), 0, 60, rapid.ID[string]).Draw(t, "rows")
		sorted := slices.Sorted(slices.Values(of))
		whole, next := get(t, rows(of), "/v1/rows")
		assert.Empty(t, next)
		assert.True(t, slices.Equal(sorted, whole), "%q", whole)

		limit := rapid.IntRange(1, 70).Draw(t, "limit")
		var pages []string
		for next = fmt.Sprintf("/v1/rows?of=x&limit=%d", limit); next != ""; {
			var page []string
			page, next = get(t, rows(of), next)
			assert.LessOrEqual(t, len(page), limit)
			assert.True(t, next == "" || len(page) == limit && strings.Contains(next, "of=x"), "the link keeps the other parameters: %s", next)
			pages = append(pages, page...)
		}
		assert.True(t, slices.Equal(sorted, pages), "%q", pages)
	})
}

// Without a limit the answer is the array that it always was, and is read in pieces.
func TestWriteList_WholeListIsReadInPieces(t *testing.T) {
	w := httptest.NewRecorder()
	WriteList(w, httptest.NewRequest(http.MethodGet, "/v1/rows", nil), rows([]string{"b", "<a>"}))
	assert.Equal(t, "[\"<a>\",\"b\"]\n", w.Body.String())
	assert.Empty(t, w.Header().Get("Link"))
	w = httptest.NewRecorder()
	WriteList(w, httptest.NewRequest(http.MethodGet, "/v1/rows", nil), rows(nil))
	assert.Equal(t, "[]\n", w.Body.String())

	var many []string
	for i := range 2*keysMost + 100 {
		many = append(many, fmt.Sprint(i))
	}
	l := rows(many)
	scans, most := 0, 0
	keys, some := l.Keys, l.Rows
	l.Keys = func(add func(...string)) { scans++; keys(add) }
	l.Rows = func(keys []string) []string { most = max(most, len(keys)); return some(keys) }
	whole, _ := get(t, l, "/v1/rows")
	assert.True(t, slices.Equal(slices.Sorted(slices.Values(many)), whole))
	assert.Equal(t, 3, scans)
	assert.LessOrEqual(t, most, rowsMost)
}

// A reader that has gone costs nothing more.
func TestWriteList_EndsWithItsReader(t *testing.T) {
	l := rows([]string{"a", "b"})
	written := 0
	WriteList(&goneWriter{httptest.NewRecorder(), &written}, httptest.NewRequest(http.MethodGet, "/v1/rows", nil), l)
	assert.Equal(t, 1, written)
}

type goneWriter struct {
	*httptest.ResponseRecorder
	written *int
}

func (g *goneWriter) Write([]byte) (int, error) { *g.written++; return 0, http.ErrHandlerTimeout }

func TestSmallest_HoldsFewKeys(t *testing.T) {
	s := smallest[int]{after: NumberKey(10), limit: 5}
	for i := range 10_000 {
		n := (i * 7919) % 10_000
		s.add(NumberKey(uint64(n)), n)
		assert.LessOrEqual(t, len(s.keys), 10)
	}
	s.cut()
	var got []int
	for _, k := range s.keys {
		got = append(got, k.key)
	}
	assert.Equal(t, []int{11, 12, 13, 14, 15}, got)
}

func TestPageOf_BadParametersAreRefused(t *testing.T) {
	for query, message := range map[string]string{
		"limit=0":     `invalid limit \"0\" (want 1 to 10000)`,
		"limit=10001": "want 1 to 10000",
		"limit=x":     "want 1 to 10000",
		"limit=-1":    "want 1 to 10000",
		"after=" + strings.Repeat("x", afterMost+1): "after has 4097 bytes, the limit is 4096",
	} {
		w := httptest.NewRecorder()
		WriteList(w, httptest.NewRequest(http.MethodGet, "/v1/rows?"+query, nil), rows([]string{"a"}))
		assert.Equal(t, http.StatusBadRequest, w.Code, query)
		assert.Contains(t, w.Body.String(), message)
	}
	numbers := rows([]string{NumberKey(3), NumberKey(20)})
	numbers.Number = true
	w := httptest.NewRecorder()
	WriteList(w, httptest.NewRequest(http.MethodGet, "/v1/rows?after=x", nil), numbers)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), `invalid after \"x\" (want a number)`)
	list, _ := get(t, numbers, "/v1/rows?after=3")
	assert.Equal(t, []string{NumberKey(20)}, list)
}

func TestCut_PagesOfASmallList(t *testing.T) {
	list, self := []string{"a", "b", "c"}, func(s string) string { return s }
	page, next := Cut(list, Page{Limit: 2}, self)
	assert.Equal(t, []string{"a", "b"}, page)
	assert.Equal(t, "b", next)
	page, next = Cut(list, Page{Limit: 2, After: "b"}, self)
	assert.Equal(t, []string{"c"}, page)
	assert.Empty(t, next)
	page, _ = Cut(list, Page{After: "aa"}, self)
	assert.Equal(t, []string{"b", "c"}, page)
	page, _ = Cut(list, Page{After: "z"}, self)
	assert.NotNil(t, page)
	assert.Empty(t, page)
}

// A row of a list is in memory while it is written, so its values do not make it large.
func TestFirstValues_AreBounded(t *testing.T) {
	value := strings.Repeat("x", 1000)
	assert.Len(t, FirstValues([]string{value, value, value}, 3000), 3)
	assert.Len(t, FirstValues([]string{value, value, value}, 2999), 2)
	assert.Empty(t, FirstValues([]string{value}, 999))
	assert.Empty(t, FirstValues(nil, 999))
}

// FuzzPageOf asks for pages with arbitrary parameters. Whatever they are, what is
// answered is refused or sorted and above after, and the link leads on.
func FuzzPageOf(f *testing.F) {
	f.Add("limit=2&after=b")
	f.Add("limit=%31&after=%00")
	f.Add("limit=99999999999999999999;after")
	f.Fuzz(func(t *testing.T, query string) {
		l := rows([]string{"\x00", "a", "b", "c#@#d", "é"})
		for range 7 {
			r := httptest.NewRequest(http.MethodGet, "/v1/rows", nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			WriteList(w, r, l)
			if w.Code != http.StatusOK {
				assert.Equal(t, http.StatusBadRequest, w.Code)
				return
			}
			var list []string
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			assert.True(t, slices.IsSorted(list))
			after := r.URL.Query().Get("after")
			assert.False(t, after != "" && len(list) > 0 && list[0] <= after)
			link := w.Header().Get("Link")
			if link == "" {
				return
			}
			next, err := url.Parse(strings.TrimSuffix(link[1:], `>; rel="next"`))
			require.NoError(t, err)
			query = next.RawQuery
		}
		t.Error("the last page has a link")
	})
}

// Of a list whose keys cost something, a page costs what it has, and little more.
func TestWriteList_BeginningsSaveKeys(t *testing.T) {
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("%04d/%d", i*7919%1000, i%10))
	}
	l := rows(many)
	want, keys := slices.Compact(slices.Sorted(slices.Values(many))), 0
	l.Key = func(k string) string { keys++; return k }
	l.Begins = func(k string) string { return k[:5] }
	var all []string
	for next := "/v1/rows?limit=50"; next != ""; {
		var page []string
		page, next = get(t, l, next)
		all = append(all, page...)
	}
	assert.True(t, slices.Equal(want, slices.Compact(all)))
	assert.Less(t, keys, 200*1000, "not all 10,000 for each of the 200 pages")
}
