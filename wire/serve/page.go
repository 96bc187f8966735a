package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"conclave/wire"
)

// Limits of pages.
const (
	pageMost  = 10_000   // rows that a request may ask for
	afterMost = 4096     // bytes of a key: three names of 255 characters, and an id
	keysMost  = 64 << 10 // keys that are selected at a time
	rowsMost  = 500      // rows that are read at a time
)

// Page is the part of a list that a request asks for: ?limit=N&after=KEY.
type Page struct {
	Limit int    // 0: the whole list
	After string // the key of the row before the first; "": from the beginning
}

// PageOf reads the parameters of a request.
func PageOf(r *http.Request) (p Page, err error) {
	q := r.URL.Query()
	if limit := q.Get("limit"); limit != "" {
		if p.Limit, err = strconv.Atoi(limit); err != nil || p.Limit < 1 || p.Limit > pageMost {
			return Page{}, wire.Errorf(wire.CodeBadRequest, "invalid limit %.20q (want 1 to %d)", limit, pageMost)
		}
	}
	if p.After = q.Get("after"); len(p.After) > afterMost {
		return Page{}, wire.Errorf(wire.CodeBadRequest, "after has %d bytes, the limit is %d", len(p.After), afterMost)
	}
	return p, nil
}

// NumberedPageOf is PageOf for a list whose keys are numbers. after is 0 if none is
// given.
func NumberedPageOf(r *http.Request) (p Page, after uint64, err error) {
	if p, err = PageOf(r); err != nil || p.After == "" {
		return p, 0, err
	}
	if after, err = strconv.ParseUint(p.After, 10, 64); err != nil {
		return p, 0, wire.Errorf(wire.CodeBadRequest, "invalid after %.40q (want a number)", p.After)
	}
	return p, after, nil
}

// NumberKey returns a number as a text that sorts as the number does.
func NumberKey(n uint64) string { return fmt.Sprintf("%020d", n) }

// NextPage returns the link to the page after the row with the key, for the header
// Link.
func NextPage(r *http.Request, key string) string {
	q := r.URL.Query()
	q.Set("after", key)
	next := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	return "<" + next.String() + `>; rel="next"`
}

// Cut returns the page of a list that is sorted by key, and the key after which the
// next page begins; "" if this is the last one. It is for lists that are small.
func Cut[T any](list []T, p Page, key func(T) string) (page []T, next string) {
	if p.After != "" {
		at, found := slices.BinarySearchFunc(list, p.After, func(row T, after string) int { return cmp.Compare(key(row), after) })
		if found {
			at++
		}
		list = list[at:]
	}
	if p.Limit == 0 || len(list) <= p.Limit {
		return list, ""
	}
	return list[:p.Limit], key(list[p.Limit-1])
}

// FirstValues returns the first values of a row that have at most the given number of
// bytes together: a row is in memory while it is written.
func FirstValues(values []string, bytes int) []string {
	for i, v := range values {
		if bytes -= len(v); bytes < 0 {
			return values[:i]
		}
	}
	return values
}

// List is a list that may have a million rows. It is read in pieces: neither is it in
// memory as a whole, nor does it have to hold a lock while it is sorted or written.
type List[K, V any] struct {
	// Key returns the text by which the rows are sorted, and Begins, if it is not nil, its
	// beginning, for less.
	Key, Begins func(K) string
	// Number reports whether the text is a number of 20 digits: then after may have fewer.
	Number bool
	// Keys calls add with keys of all rows, in any order, some at a time. It holds no
	// lock while it calls add.
	Keys func(add func(...K))
	// Rows returns the rows with these keys that still exist.
	Rows func([]K) []V
}

// WriteList answers with a list or, if the request asks for one, with a page of it,
// and with a link to the next page. What changes while it is written may be in it or
// not; each row is as it was at one moment.
func WriteList[K, V any](w http.ResponseWriter, r *http.Request, l List[K, V]) {
	page, err := PageOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	if l.Number && page.After != "" {
		_, after, err := NumberedPageOf(r)
		if err != nil {
			WriteError(w, err)
			return
		}
		page.After = NumberKey(after)
	}
	most := cmp.Or(page.Limit, keysMost)
	keys := l.above(page.After, most+1)
	if page.Limit > 0 && len(keys) > most {
		w.Header().Set("Link", NextPage(r, l.Key(keys[most-1])))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	var row bytes.Buffer
	encoder := json.NewEncoder(&row)
	encoder.SetEscapeHTML(false)
	write := func(b []byte) bool {
		_, err := w.Write(b) // an error means that the client has disconnected, or is too slow
		return err == nil
	}
	if !write([]byte("[")) {
		return
	}
	for before := ""; ; {
		for some := range slices.Chunk(keys[:min(most, len(keys))], rowsMost) {
			for _, content := range l.Rows(some) {
				row.Reset()
				row.WriteString(before)
				before = ","
				if encoder.Encode(content) != nil || !write(bytes.TrimSuffix(row.Bytes(), []byte("\n"))) {
					return
				}
			}
		}
		if page.Limit > 0 || len(keys) <= most {
			write([]byte("]\n"))
			return
		}
		keys = l.above(l.Key(keys[most-1]), most+1)
	}
}

// above returns the first keys above after, sorted.
func (l List[K, V]) above(after string, limit int) []K {
	s := smallest[K]{after: after, limit: limit}
	l.Keys(func(keys ...K) {
		for _, k := range keys {
			if l.Begins == nil || s.mayTake(l.Begins(k)) {
				s.add(l.Key(k), k)
			}
		}
	})
	s.cut()
	out := make([]K, len(s.keys))
	for i, k := range s.keys {
		out[i] = k.key
	}
	return out
}

// smallest selects the smallest keys above after, and holds at most twice as many as
// its limit.
type smallest[K any] struct {
	after string
	limit int
	keys  []keyed[K]
	bound string // the text of the largest of limit keys so far, if full
	full  bool
}

// keyed is a key with its text.
type keyed[K any] struct {
	text string
	key  K
}

// mayTake reports whether a key may be selected whose text has this beginning.
func (s *smallest[K]) mayTake(begins string) bool {
	return (begins >= s.after || strings.HasPrefix(s.after, begins)) && !(s.full && begins > s.bound)
}

func (s *smallest[K]) add(text string, key K) {
	if s.after != "" && text <= s.after || s.full && text > s.bound {
		return
	}
	if s.keys = append(s.keys, keyed[K]{text, key}); len(s.keys) >= 2*s.limit {
		s.cut()
	}
}

// cut sorts the keys, and drops those beyond the limit.
func (s *smallest[K]) cut() {
	slices.SortFunc(s.keys, func(a, b keyed[K]) int { return cmp.Compare(a.text, b.text) })
	if len(s.keys) >= s.limit {
		clear(s.keys[s.limit:])
		s.keys = s.keys[:s.limit]
		s.bound, s.full = s.keys[s.limit-1].text, true
	}
}
