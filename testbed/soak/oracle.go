package soak

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The checkers.
const (
	checkMissing = iota
	checkEmpty
	checkFirst
	checkGone
	checkBack
	checkStale
	checkVersion
	checkContent
	checkForeign
	checkTerm
	checkRise
	checkServes
	checkLeader
	checkServed
	checkStored
	checkAgree
	checkProcess
	checkExit
	checkLog
	checkMemory
	checks
)

var checkNames = [checks]string{
	checkMissing: "no push lacks a live registration that its subscriber has seen, or that was stored long ago",
	checkEmpty:   "no push is empty, or half of what it was, while the publishers live",
	checkFirst:   "a new subscriber's first list is complete and contains nothing that was withdrawn long ago",
	checkGone:    "nothing withdrawn is shown again",
	checkBack:    "no publisher's value falls back to an older one",
	checkStale:   "no push shows a value that was replaced, and the replacement stored, long ago",
	checkVersion: "versions only rise, per subscriber and dataId",
	checkContent: "one version of a dataId has one content, for all subscribers",
	checkForeign: "no push contains a value that was not published there, or a registration twice",
	checkTerm:    "a term has one owner, at every meta and in the history",
	checkRise:    "terms only rise, at every meta and in the history",
	checkServes:  "an accepted operator command leaves a cluster that serves",
	checkLeader:  "after healing there is a leader",
	checkServed:  "after healing every node is ready and every slot is served and stable",
	checkStored:  "after healing a registration is stored and read",
	checkAgree:   "after healing every subscriber sees exactly what is published",
	checkProcess: "no process ends by itself",
	checkExit:    "a clean stop ends in time, with exit code 0",
	checkLog:     "no log has a data race, a panic or a fatal error",
	checkMemory:  "no process grows above the memory bound",
}

// Check is the counts of one checker.
type Check struct {
	Name   string `json:"name"`
	Checks int    `json:"checks"`
	Broken int    `json:"broken"`
}

// Violation is one violation of a promise.
type Violation struct {
	AtMs    int64    `json:"atMs"`
	Check   string   `json:"check"`
	Text    string   `json:"text"`
	Episode int      `json:"episode"`
	Around  []string `json:"around,omitempty"` // the events before it, of the same dataId or of the cluster
}

// Oracle compares what subscribers receive with what publishers did. All times
// are counted from the start by this process's monotonic clock.
type Oracle struct {
	now func() time.Duration

	mu         sync.Mutex // guards the rest
	keep       bool       // whether unwritten is filled
	unwritten  []event    // for the event log
	recent     []event    // the newest events, for the context of a violation
	episode    int
	lost       time.Duration // when all data nodes and sessions were last down at the same time; negative: never
	regs       map[string]*registration
	byData     map[string]map[string]*registration // live registrations
	views      map[string]*view
	contents   map[string]map[int64]string
	counts     [checks]Check
	violations []Violation
	flood      map[string]time.Duration // when a violation of this kind was listed last
	listed     map[[2]int]int           // by episode and checker
	owners     map[uint64]string
	terms      map[string]uint64
	pushes     int
	acks       int
}

// registration is one registration, as its publisher knows it.
type registration struct {
	id, data string
	begun    int                   // the newest value that was begun
	stored   int                   // the newest that was acknowledged as stored
	storedAt map[int]time.Duration // of the newest few
	first    time.Duration         // when the first was stored; -1: not yet
	ending   bool                  // its withdrawal was begun, or its client was killed
	killed   bool
	gone     time.Duration // when its withdrawal was acknowledged; -1: not yet
}

// view is what one subscriber sees of one dataId.
type view struct {
	subscriber, data string
	began            time.Duration
	lasting          bool // takes part in the comparison after healing
	first            bool // the first push has arrived
	firstAt          time.Duration
	version          int64
	shown            map[string]int      // by registration: the value in the newest push
	high             map[string]int      // the highest value ever seen
	lost             map[string]struct{} // ended registrations that were seen and have disappeared
}

// event is one line of the event log.
type event struct {
	at         time.Duration
	data       string // its dataId; "": an event of the cluster
	subscriber string // of a push
	text       string
}

// keepEvents bounds the events kept for the context of a violation.
const keepEvents = 4000

// NewOracle returns an oracle; now returns the time since the start.
func NewOracle(now func() time.Duration) *Oracle {
	o := &Oracle{
		now: now, lost: -time.Hour, regs: map[string]*registration{}, byData: map[string]map[string]*registration{}, views: map[string]*view{},
		contents: map[string]map[int64]string{}, flood: map[string]time.Duration{}, listed: map[[2]int]int{}, owners: map[uint64]string{}, terms: map[string]uint64{},
	}
	for i := range o.counts {
		o.counts[i].Name = checkNames[i]
	}
	return o
}

// Note records an event about the cluster.
func (o *Oracle) Note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note("", format, args...)
}

// Lost records that all data nodes and all sessions are down at this moment.
func (o *Oracle) Lost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = o.now()
}

// incomplete reports whether a subscriber's list may be incomplete after a loss
// of all data nodes and all sessions, because it had no list before. A list
// that a subscriber had never shrinks, and what a new subscriber has seen stays
// (ARCHITECTURE.md). mu is held.
func (o *Oracle) incomplete(v *view, now time.Duration) bool {
	return now < o.lost+lostGrace && (!v.first || v.firstAt > o.lost)
}

// Events returns the events since the last call. The first call begins the
// record.
func (o *Oracle) Events() []string {
	o.mu.Lock()
	events := o.unwritten
	o.keep, o.unwritten = true, nil
	o.mu.Unlock()
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = fmt.Sprintf("%9.3f s  %s", e.at.Seconds(), e.text)
	}
	return out
}

// BeginEpisode sets the episode of the violations that follow.
func (o *Oracle) BeginEpisode(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.episode = n
}

// note records an event; mu is held.
func (o *Oracle) note(data, format string, args ...any) {
	o.record(event{data: data, text: fmt.Sprintf(format, args...)})
}

// record keeps an event; mu is held.
func (o *Oracle) record(e event) {
	e.at = o.now()
	if o.keep {
		o.unwritten = append(o.unwritten, e)
	}
	o.recent = append(o.recent, e)
	if len(o.recent) > 2*keepEvents {
		o.recent = slices.Delete(o.recent, 0, len(o.recent)-keepEvents)
	}
}

// Publishing records that a registration is about to be made or changed, and
// returns the value to publish.
func (o *Oracle) Publishing(id, data string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	if r == nil {
		r = &registration{id: id, data: data, storedAt: map[int]time.Duration{}, first: -1, gone: -1}
		o.regs[id] = r
		if o.byData[data] == nil {
			o.byData[data] = map[string]*registration{}
		}
		o.byData[data][id] = r
	}
	r.begun++
	if r.begun == 1 {
		o.note(data, "%s is published on %s", id, data)
	}
	return id + "#" + strconv.Itoa(r.begun)
}

// Stored records that the newest value of a registration was acknowledged as
// stored.
func (o *Oracle) Stored(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	r.stored = r.begun
	r.storedAt[r.stored] = o.now()
	if r.first < 0 {
		r.first = o.now()
		o.note(r.data, "%s is stored", id)
	}
	for seq := range r.storedAt { // the times of older values are not needed
		if seq < r.stored-4 {
			delete(r.storedAt, seq)
		}
	}
	o.acks++
}

// Ending records that a registration is about to be withdrawn or, with killed,
// that its client is about to be killed.
func (o *Oracle) Ending(id string, killed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	if r.ending {
		return
	}
	r.ending, r.killed = true, killed
	delete(o.byData[r.data], id)
	o.note(r.data, "%s %s", id, map[bool]string{true: "dies with its client", false: "is being withdrawn"}[killed])
}

// Withdrawn records that the withdrawal of a registration was acknowledged.
func (o *Oracle) Withdrawn(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.regs[id]
	r.gone = o.now()
	o.acks++
	o.note(r.data, "%s is withdrawn, acknowledged", id)
}

// Subscribing records that a subscriber is about to subscribe. A lasting one
// takes part in Behind.
func (o *Oracle) Subscribing(subscriber, data string, lasting bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.views[subscriber+" "+data] = &view{
		subscriber: subscriber, data: data, began: o.now(), lasting: lasting,
		shown: map[string]int{}, high: map[string]int{}, lost: map[string]struct{}{},
	}
}

// Unsubscribed forgets a subscriber.
func (o *Oracle) Unsubscribed(subscriber string, data ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range data {
		delete(o.views, subscriber+" "+d)
	}
}

// Expect counts one check, and a violation unless ok.
func (o *Oracle) Expect(check int, ok bool, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[check].Checks++
	if !ok {
		o.violate(check, nil, format, args...)
	}
}

// All violations are counted. Listed are at most one of a checker and a dataId
// in floodTime, and at most listAtMost of a checker in an episode.
const (
	floodTime  = 5 * time.Second
	listAtMost = 5
	aroundMost = 40
	aroundTime = 30 * time.Second
)

// violate records a violation at a subscriber or, with a nil view, of the
// cluster; mu is held.
func (o *Oracle) violate(check int, seen *view, format string, args ...any) {
	data, subscriber := "", ""
	if seen != nil {
		data, subscriber = seen.data, seen.subscriber
	}
	o.counts[check].Broken++
	now, text := o.now(), fmt.Sprintf(format, args...)
	key := fmt.Sprint(check, " ", data)
	if data == "" {
		key += text
	}
	listed := [2]int{o.episode, check}
	if last, seen := o.flood[key]; seen && now-last < floodTime || o.listed[listed] >= listAtMost {
		return
	}
	o.flood[key] = now
	o.listed[listed]++
	v := Violation{AtMs: now.Milliseconds(), Check: checkNames[check], Text: text, Episode: o.episode}
	for i := len(o.recent) - 1; i >= 0 && len(v.Around) < aroundMost && now-o.recent[i].at < aroundTime; i-- {
		if e := o.recent[i]; e.data == "" || e.data == data && (e.subscriber == "" || e.subscriber == subscriber) {
			v.Around = append(v.Around, fmt.Sprintf("%8.3f s  %s", e.at.Seconds(), e.text))
		}
	}
	slices.Reverse(v.Around)
	o.violations = append(o.violations, v)
	o.note(data, "VIOLATION: %s: %s", checkNames[check], text)
}

// Checks returns every checker with its counts.
func (o *Oracle) Checks() []Check {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.counts[:])
}

// Violations returns the listed violations in the order in which they were
// found.
func (o *Oracle) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

// Broken returns the number of all violations, also of those that are not
// listed.
func (o *Oracle) Broken() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken()
}

// broken is Broken; mu is held.
func (o *Oracle) broken() (n int) {
	for _, c := range o.counts {
		n += c.Broken
	}
	return n
}

// Behind describes a lasting subscriber that does not see exactly what is
// published, or returns "". The result is meaningful only while no client
// changes anything.
func (o *Oracle) Behind() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.views)) {
		v := o.views[key]
		if !v.lasting {
			continue
		}
		want := map[string]int{}
		for id, r := range o.byData[v.data] {
			want[id] = r.begun
		}
		if !maps.Equal(v.shown, want) {
			return fmt.Sprintf("%s sees %s of %s; published is %s", v.subscriber, difference(v.shown, want), v.data, difference(want, v.shown))
		}
	}
	return ""
}

// difference describes what is in a and not in b.
func difference(a, b map[string]int) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if n, has := b[id]; !has || n != a[id] {
			out = append(out, fmt.Sprintf("%s#%d", id, a[id]))
		}
	}
	if len(out) == 0 {
		return "nothing else"
	}
	if len(out) > 8 {
		out = append(out[:8], fmt.Sprintf("and %d more", len(out)-8))
	}
	return strings.Join(out, " ")
}

// parse reads "p12#4".
func parse(value string) (id string, n int, ok bool) {
	id, count, ok := strings.Cut(value, "#")
	n, err := strconv.Atoi(count)
	return id, n, ok && err == nil
}
