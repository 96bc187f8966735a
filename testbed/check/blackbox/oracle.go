package blackbox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds are how late something may be seen. A session that was paused or cut off
// answers from what it read before, so they depend on the longest outage of a run.
type Bounds struct {
	// First: a first list shows everything that was stored at least this long before
	// its subscriber started, and nothing that was withdrawn as long ago.
	First time.Duration
	// Late is the same for later pushes, which a session may hold back.
	Late time.Duration
	// Lost is how long lists may be incomplete after a loss of all data nodes and all
	// sessions.
	Lost time.Duration
}

// Oracle compares what subscribers receive with what publishers did.
type Oracle struct {
	*Findings
	bounds Bounds

	// Findings.mu guards the rest.
	lost     time.Duration // when all data nodes and sessions were last down at the same time; negative: never
	regs     map[string]*registration
	live     map[string]map[string]*registration // by dataId and id: those that have not ended
	views    map[string]*view                    // by subscriber and dataId
	contents map[string]map[int64]string         // by dataId and version
	owners   map[uint64]string                   // by term
	terms    map[string]uint64                   // the highest that each meta or history has named
	clients  map[*client]struct{}                // that have not ended
	served   time.Duration                       // when the newest registration was begun that was stored, seen and withdrawn
	changed  time.Duration                       // when the newest change was begun that was stored and seen
	read     time.Duration                       // when the newest subscriber began that has a list
	pushes   int
	acks     int
}

// client is what the oracle knows about a client.
type client struct {
	name string
	kill func()
	ids  []string // of its registrations
}

// registration is one registration, as its publisher knows it.
type registration struct {
	id, data string
	began    time.Duration
	begun    int                   // the newest value that was begun
	changed  time.Duration         // when it was
	storedAt map[int]time.Duration // of the newest few
	first    time.Duration         // when the first was stored; -1: not yet
	ending   time.Duration         // when its withdrawal was begun, or its client was killed; -1: not yet
	killed   bool
	seen     int           // the newest value that a push has shown
	gone     time.Duration // when its withdrawal was acknowledged; -1: not yet
}

// view is what one subscriber sees of one dataId.
type view struct {
	subscriber, data string
	began            time.Duration
	first            time.Duration // when the first push arrived; -1: not yet
	version          int64
	shown            map[string]int      // by registration: the value in the newest push
	high             map[string]int      // the highest value ever seen
	lost             map[string]struct{} // ended registrations that were seen and have disappeared
}

// New returns an oracle; now returns the time since the start. Its findings also
// count the checks of the caller, which calls Expect for them.
func New(now func() time.Duration, bounds Bounds, checks ...Check) *Oracle {
	return &Oracle{
		Findings: newFindings(now, slices.Concat(own, checks)), bounds: bounds, lost: -time.Hour,
		regs: map[string]*registration{}, live: map[string]map[string]*registration{}, views: map[string]*view{},
		contents: map[string]map[int64]string{}, owners: map[uint64]string{}, terms: map[string]uint64{}, clients: map[*client]struct{}{},
	}
}

// Lost records that all data nodes and all sessions are down at this moment.
func (o *Oracle) Lost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = o.now()
}

// Totals returns the number of pushes and of acknowledgements.
func (o *Oracle) Totals() (pushes, acks int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pushes, o.acks
}

// Idle describes what the cluster has not done since a time, or returns "": a
// registration made since then was stored, shown to a subscriber, and withdrawn; a
// change made since then was stored and shown; and a subscriber that began since then
// has a list.
func (o *Oracle) Idle(since time.Duration) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.served < since:
		return "no new registration was stored, shown and withdrawn"
	case o.changed < since:
		return "no change was stored and shown"
	case o.read < since:
		return "no new subscriber has a list"
	}
	return ""
}

// Unheard describes a registration whose newest value, or whose withdrawal, is not
// acknowledged, or returns "". Those of clients that were killed, or gave their good-bye
// up, are left out. The result means something while no client changes anything.
func (o *Oracle) Unheard() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.clients {
		for _, id := range c.ids {
			r := o.regs[id]
			if _, stored := r.storedAt[r.begun]; !stored && r.ending < 0 {
				return fmt.Sprintf("%s#%d of %s, begun %s ago, is not acknowledged as stored", id, r.begun, r.data, o.ago(r.changed))
			}
			if r.ending >= 0 && !r.killed && r.gone < 0 {
				return fmt.Sprintf("the withdrawal of %s of %s, begun %s ago, is not acknowledged", id, r.data, o.ago(r.ending))
			}
		}
	}
	return ""
}

func (o *Oracle) ago(at time.Duration) time.Duration { return (o.now() - at).Round(time.Millisecond) }

// Behind describes a list of a subscriber that does not show exactly what is published,
// or returns "". Subscribers that began after this time are left out. The result means
// something while no client changes anything.
func (o *Oracle) Behind(since time.Duration) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.views)) {
		v, want := o.views[key], map[string]int{}
		for id, r := range o.live[v.data] {
			want[id] = r.begun
		}
		if v.began > since || v.first >= 0 && maps.Equal(v.shown, want) {
			continue
		}
		return fmt.Sprintf("%s sees %v of %s; published is %v", v.subscriber, v.shown, v.data, want)
	}
	return ""
}

// settled notes whether the newest change of a registration was stored and seen; mu is
// held.
func (o *Oracle) settled(r *registration) {
	if _, stored := r.storedAt[r.begun]; stored && r.begun > 1 && r.seen == r.begun {
		o.changed = max(o.changed, r.changed)
	}
}

// publishing records that a registration is about to be made or changed. It returns
// its id.
func (o *Oracle) publishing(by *client, data string, values []string) (id string, err error) {
	id, n, ok := parse(strings.Join(values, ","))
	if !ok {
		return "", fmt.Errorf("invalid values %q (want one ID#N)", values)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	if r == nil {
		r = &registration{id: id, data: data, began: o.now(), storedAt: map[int]time.Duration{}, first: -1, ending: -1, gone: -1}
		o.regs[id] = r
		if o.live[data] == nil {
			o.live[data] = map[string]*registration{}
		}
		o.live[data][id] = r
		by.ids = append(by.ids, id)
		o.note(event{data: data, text: id + " is published on " + data})
	}
	r.begun, r.changed = n, o.now()
	return id, nil
}

// newest returns the newest value of a registration, and whether it is ending.
func (o *Oracle) newest(id string) (n int, ending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.regs[id].begun, o.regs[id].ending >= 0
}

// stored records that a value was acknowledged as stored.
func (o *Oracle) stored(id string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	r.storedAt[n] = o.now()
	o.settled(r)
	o.acks++
	o.counts[Accepted].Checks++
	if r.first < 0 {
		r.first = o.now()
		o.note(event{data: r.data, text: id + " is stored"})
	}
	maps.DeleteFunc(r.storedAt, func(seq int, _ time.Duration) bool { return seq < n-4 }) // those of older values are not needed
}

// ending records that registrations are about to be withdrawn or, with killed, that
// their client is about to be killed.
func (o *Oracle) ending(killed bool, ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if r := o.regs[id]; r.ending < 0 {
			r.ending, r.killed = o.now(), killed
			delete(o.live[r.data], id)
			o.note(event{data: r.data, text: id + map[bool]string{true: " dies with its client", false: " is being withdrawn"}[killed]})
		}
	}
}

// withdrawn records that the withdrawal of registrations was acknowledged.
func (o *Oracle) withdrawn(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if r := o.regs[id]; r.gone < 0 {
			r.gone = o.now()
			o.acks++
			if r.first >= 0 && r.seen > 0 {
				o.served = max(o.served, r.began)
			}
			o.note(event{data: r.data, text: id + " is withdrawn, acknowledged"})
		}
	}
}

// subscribing records that a subscriber is about to subscribe.
func (o *Oracle) subscribing(subscriber, data string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.views[subscriber+" "+data] = &view{
		subscriber: subscriber, data: data, began: o.now(), first: -1,
		shown: map[string]int{}, high: map[string]int{}, lost: map[string]struct{}{},
	}
}

// ended records that a client is about to say good-bye or, with killed, to be killed, and
// forgets what it sees. It returns the client's registrations.
func (o *Oracle) ended(c *client, killed bool) []string {
	o.mu.Lock()
	ids := c.ids
	if killed {
		delete(o.clients, c)
	}
	maps.DeleteFunc(o.views, func(_ string, v *view) bool { return v.subscriber == c.name })
	o.mu.Unlock()
	o.ending(killed, ids...)
	return ids
}

// parse reads "p12#4".
func parse(value string) (id string, n int, ok bool) {
	id, count, ok := strings.Cut(value, "#")
	n, err := strconv.Atoi(count)
	return id, n, ok && err == nil
}

// Led checks one answer of a meta that names the leader.
func (o *Oracle) Led(meta string, term uint64, owner string) { o.named(meta, term, owner, 0) }

// Elected checks one row of a history, which lists each term once, in their order.
func (o *Oracle) Elected(history string, term uint64, owner string) {
	o.named(history, term, owner, 1)
}

// named checks that a source names a term that is above the one before by at least this
// much.
func (o *Oracle) named(source string, term uint64, owner string, above uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[Owner].Checks++
	was, known := o.owners[term]
	if known && was != owner {
		o.violate(Owner, "", "", "term %d was owned by %s and by %s", term, was, owner)
	}
	if !known {
		o.owners[term] = owner
		o.note(event{text: fmt.Sprintf("%s leads term %d", owner, term)})
	}
	o.counts[Rise].Checks++
	if last, known := o.terms[source]; known && term < last+above {
		o.violate(Rise, "", "", "%s named term %d after term %d", source, term, last)
	}
	o.terms[source] = max(o.terms[source], term)
}
