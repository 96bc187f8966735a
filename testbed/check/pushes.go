package check

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// pushed is a push to a client, and what the history has shown before it. Each slot
// has one counter of versions, which only rises, so the lists of all subscribers can
// be compared by their versions.
type pushed struct {
	Op
	i     int
	at    time.Duration
	first bool
	now   map[string]int     // by tag: the value in this list
	had   map[string]int     // by tag: the entry of the subscriber's list before, if it was in it
	shown map[string]version // by tag: the highest version of this datum in which it was, in any list; of the caller

	published map[string]int  // by tag: its newest value
	ended     map[string]bool // tags that are withdrawn, or whose client has ended; true: withdrawn
}

// version is a version of a datum that was pushed.
type version struct {
	number int64
	at     time.Duration // when it was first pushed
	i      int
}

// pushes calls f with each push to a client.
func (h *History) pushes(f func(p pushed)) {
	published, ended := map[string]int{}, map[string]bool{}
	lists, all := map[string]map[string]int{}, map[string]map[string]version{}
	h.ops(func(i int, at time.Duration, o Op) {
		switch o.Kind {
		case OpPublish:
			published[o.ID] = max(published[o.ID], int(o.Version))
			return
		case OpWithdraw:
			ended[o.ID] = ended[o.ID] || o.Version > 0
			return
		}
		list := ListName(o.Client, o.Name)
		had, any := lists[list]
		if all[o.Name] == nil {
			all[o.Name] = map[string]version{}
		}
		now, has, shown := map[string]int{}, map[string]int{}, all[o.Name]
		for _, value := range o.Values {
			if tag, n, ok := ParseValue(value); ok {
				now[tag], has[tag] = n, i
				if o.Version > shown[tag].number {
					shown[tag] = version{o.Version, at, i}
				}
			}
		}
		lists[list] = has
		f(pushed{Op: o, i: i, at: at, first: !any, now: now, had: had, shown: shown, published: published, ended: ended})
	}, OpPublish, OpWithdraw, OpPush)
}

// tags returns the tags in the lists of a datum so far, sorted.
func (p pushed) tags() []string { return slices.Sorted(maps.Keys(p.shown)) }

// clientOf returns the client that made a registration.
func clientOf(tag string) string {
	client, _, _ := strings.Cut(tag, "/")
	return client
}
