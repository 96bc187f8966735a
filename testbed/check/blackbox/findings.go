package blackbox

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Check is what is checked, in words.
type Check string

// The checks of an Oracle.
const (
	Missing  Check = "no push lacks a live registration that its subscriber has seen, or that was stored long ago"
	First    Check = "a new subscriber's first list is complete and contains nothing that was withdrawn long ago"
	Gone     Check = "nothing withdrawn is shown again"
	Back     Check = "no publisher's value falls back to an older one"
	Stale    Check = "no push shows a value that was replaced, and the replacement stored, long ago"
	Version  Check = "versions only rise, per subscriber and dataId"
	Content  Check = "one version of a dataId has one content, for all subscribers"
	Foreign  Check = "no push contains a value that was not published there, or a registration twice"
	Accepted Check = "no registration is refused"
	Owner    Check = "a term has one owner, at every meta and in the history"
	Rise     Check = "terms only rise, at every meta and in the history"
)

var own = []Check{Missing, First, Gone, Back, Stale, Version, Content, Foreign, Accepted, Owner, Rise}

// Count is how often a check was made and failed.
type Count struct {
	Name   Check `json:"name"`
	Checks int   `json:"checks"`
	Broken int   `json:"broken"`
}

// Violation is one violation of a promise.
type Violation struct {
	AtMs    int64    `json:"atMs"`
	Check   Check    `json:"check"`
	Text    string   `json:"text"`
	Episode int      `json:"episode"`
	Around  []string `json:"around,omitempty"` // the events before it, of the same dataId or of the cluster
}

// Findings are what was checked and what was violated, with a record of what happened
// before. Times are counted from the start of the run, by this process's monotonic
// clock.
type Findings struct {
	now func() time.Duration

	mu         sync.Mutex // guards the rest, and the state of the Oracle
	order      []Check
	counts     map[Check]*Count
	violations []Violation
	episode    int
	listed     map[Check]int // in this episode
	events     []event       // the newest ones
}

// Of all violations, which are counted, those of a check in an episode that come first
// are listed, each with the newest events before it that concern it.
const (
	listAtMost = 5
	keepEvents = 4000
	aroundMost = 40
)

// event is one line of the record.
type event struct {
	at         time.Duration
	data       string // its dataId; "": an event of the cluster
	subscriber string // of a push
	text       string
}

func (e event) String() string { return fmt.Sprintf("%9.3f s  %s", e.at.Seconds(), e.text) }

func newFindings(now func() time.Duration, checks []Check) *Findings {
	f := &Findings{now: now, order: checks, counts: map[Check]*Count{}, listed: map[Check]int{}}
	for _, c := range checks {
		f.counts[c] = &Count{Name: c}
	}
	return f
}

// Begin sets the episode of the violations that follow.
func (f *Findings) Begin(episode int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.episode = episode
	clear(f.listed)
}

// Note records an event about the cluster.
func (f *Findings) Note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(event{text: text})
}

// note records an event; mu is held.
func (f *Findings) note(e event) {
	e.at = f.now()
	if f.events = append(f.events, e); len(f.events) > 2*keepEvents {
		f.events = slices.Delete(f.events, 0, keepEvents)
	}
}

// Expect counts one check, and a violation unless ok.
func (f *Findings) Expect(c Check, ok bool, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[c].Checks++
	if !ok {
		f.violate(c, "", "", format, args...)
	}
}

// violate records a violation by a list of a subscriber or, without a dataId, of the
// cluster; mu is held.
func (f *Findings) violate(c Check, data, subscriber, format string, args ...any) {
	f.counts[c].Broken++
	if f.listed[c]++; f.listed[c] > listAtMost {
		return
	}
	v := Violation{AtMs: f.now().Milliseconds(), Check: c, Text: fmt.Sprintf(format, args...), Episode: f.episode}
	for i := len(f.events) - 1; i >= 0 && len(v.Around) < aroundMost; i-- {
		if e := f.events[i]; e.data == "" || e.data == data && (e.subscriber == "" || e.subscriber == subscriber) {
			v.Around = append(v.Around, e.String())
		}
	}
	slices.Reverse(v.Around)
	f.violations = append(f.violations, v)
	f.note(event{data: data, text: fmt.Sprintf("VIOLATION: %s: %s", c, v.Text)})
}

// Counts returns the counts of every check.
func (f *Findings) Counts() []Count {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Count, len(f.order))
	for i, c := range f.order {
		out[i] = *f.counts[c]
	}
	return out
}

// Broken returns the number of all violations, also of those that are not listed.
func (f *Findings) Broken() (n int) {
	for _, c := range f.Counts() {
		n += c.Broken
	}
	return n
}

// Violations returns the listed violations in the order in which they were found.
func (f *Findings) Violations() []Violation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}
