package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forged is an oracle with a clock that the test sets, and methods that feed
// it.
type forged struct {
	*Oracle
	t       time.Duration
	version int64
}

func newForged() *forged {
	f := &forged{}
	f.Oracle = NewOracle(func() time.Duration { return f.t })
	return f
}

// later advances the clock.
func (f *forged) later(d time.Duration) { f.t += d }

// has records registrations as published and stored on "d".
func (f *forged) has(ids ...string) {
	for _, id := range ids {
		f.Publishing(id, "d")
		f.Stored(id)
	}
}

// ends records the withdrawal of a registration and its acknowledgement.
func (f *forged) ends(id string) {
	f.Ending(id, false)
	f.Withdrawn(id)
}

// sees records the next push of "d" to a subscriber, at the next version.
func (f *forged) sees(subscriber, values string) {
	if f.views[subscriber+" d"] == nil {
		f.Subscribing(subscriber, "d", true)
	}
	f.version++
	f.Pushed(subscriber, "d", f.version, strings.Fields(values))
}

// Each checker rejects its forged history and accepts a similar one that is
// correct.
func TestOracle_RejectsForgedHistories(t *testing.T) {
	for name, c := range map[string]struct {
		check  int
		broken func(f *forged)
		true   func(f *forged)
	}{
		"a live registration is missing": {checkMissing,
			func(f *forged) { f.has("a", "b", "c"); f.sees("s", "a#1 b#1 c#1"); f.sees("s", "a#1 b#1") },
			func(f *forged) {
				f.has("a", "b", "c")
				f.sees("s", "a#1 b#1 c#1")
				f.Ending("c", false) // requested, not acknowledged: it may be missing from now on
				f.sees("s", "a#1 b#1")
			}},
		"one that was stored long ago is never pushed": {checkMissing,
			func(f *forged) { f.sees("s", ""); f.has("a"); f.later(lateAge + time.Second); f.sees("s", "") },
			func(f *forged) { f.sees("s", ""); f.has("a"); f.later(time.Second); f.sees("s", "") }},
		"a list comes empty": {checkEmpty,
			func(f *forged) { f.has("a", "b"); f.sees("s", "a#1 b#1"); f.sees("s", "") },
			func(f *forged) {
				f.has("a", "b")
				f.sees("s", "a#1 b#1")
				f.Ending("a", true)
				f.Ending("b", true)
				f.sees("s", "")
			}},
		"a list is halved": {checkEmpty,
			func(f *forged) { f.has("a", "b", "c"); f.sees("s", "a#1 b#1 c#1"); f.sees("s", "a#1") },
			func(f *forged) { f.has("a", "b", "c"); f.sees("s", "a#1 b#1 c#1"); f.sees("s", "a#1 b#1") }},
		"a first list lacks an old publisher": {checkFirst,
			func(f *forged) { f.has("a", "b"); f.later(firstListAge + time.Second); f.sees("s", "a#1") },
			func(f *forged) {
				f.has("a")
				f.later(firstListAge + time.Second)
				f.has("b") // stored just now
				f.sees("s", "a#1")
			}},
		"a list that was held loses one to another after a loss of everything": {checkMissing,
			func(f *forged) { f.has("a", "b"); f.sees("s", "a#1 b#1"); f.Lost(); f.has("c"); f.sees("s", "a#1 c#1") },
			func(f *forged) {
				f.has("a", "b")
				f.sees("s", "a#1 b#1")
				f.Lost()
				f.has("c")
				f.sees("s", "a#1 b#1 c#1")
			}},
		"a first list lacks one long after a loss of everything": {checkFirst,
			func(f *forged) { f.has("a"); f.Lost(); f.later(lostGrace + time.Second); f.sees("s", "") },
			func(f *forged) {
				f.has("a")
				f.later(lostGrace + time.Second)
				f.Lost()
				f.sees("s", "") // it had no list
			}},
		"a new subscriber loses what it has seen after a loss of everything": {checkMissing,
			func(f *forged) { f.has("a", "b"); f.Lost(); f.sees("s", "a#1 b#1"); f.sees("s", "b#1") },
			func(f *forged) {
				f.has("a", "b")
				f.Lost()
				f.later(time.Second)
				f.sees("s", "a#1")
				f.sees("s", "a#1")
			}},
		"a first list is empty": {checkFirst,
			func(f *forged) { f.has("a"); f.later(firstListAge + time.Second); f.sees("s", "") },
			func(f *forged) { f.sees("s", "") }},
		"a first list has an old withdrawal": {checkFirst,
			func(f *forged) { f.has("a"); f.ends("a"); f.later(firstListAge + time.Second); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.ends("a"); f.later(time.Second); f.sees("s", "a#1") }},
		"a first list has an old value": {checkFirst,
			func(f *forged) { f.has("a"); f.has("a"); f.later(firstListAge + time.Second); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.later(firstListAge + time.Second); f.has("a"); f.sees("s", "a#1") }},
		"what was withdrawn comes back": {checkGone,
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.ends("a"); f.sees("s", ""); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.ends("a"); f.sees("s", "a#1"); f.sees("s", "") }},
		"what died comes back": {checkGone,
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.Ending("a", true)
				f.sees("s", "")
				f.sees("s", "a#1")
			},
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.Ending("a", true)
				f.sees("s", "a#1")
				f.sees("s", "")
			}},
		"what was withdrawn stays for long": {checkGone,
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.ends("a")
				f.later(lateAge + time.Second)
				f.sees("s", "a#1")
			},
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.Ending("a", true) // nothing was acknowledged: it is not promised to go soon
				f.later(lateAge + time.Second)
				f.sees("s", "a#1")
			}},
		"a value falls back": {checkBack,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("s", "a#1") },
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("r", "a#1") }},
		"a value falls back after it was missing": {checkBack,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("s", ""); f.sees("s", "a#1") },
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1"); f.sees("s", ""); f.sees("s", "a#2") }},
		"an old value stays": {checkStale,
			func(f *forged) {
				f.has("a", "a")
				f.sees("s", "a#1")
				f.later(lateAge + time.Second)
				f.sees("s", "a#1")
			},
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1"); f.later(time.Second); f.sees("s", "a#1") }},
		"a version comes twice": {checkVersion,
			func(f *forged) { f.sees("s", ""); f.version--; f.sees("s", "") },
			func(f *forged) { f.sees("s", ""); f.version--; f.sees("r", "") }},
		"a version has two contents": {checkContent,
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.version--; f.sees("r", "") },
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.version--; f.sees("r", "a#1") }},
		"a value was never published": {checkForeign,
			func(f *forged) { f.has("a"); f.sees("s", "a#2") },
			func(f *forged) { f.has("a"); f.Publishing("a", "d"); f.sees("s", "a#2") }},
		"a value belongs to another dataId": {checkForeign,
			func(f *forged) { f.Publishing("a", "e"); f.sees("s", "a#1") },
			func(f *forged) { f.Publishing("a", "d"); f.sees("s", "a#1") }},
		"a registration comes twice": {checkForeign,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1 a#2") },
			func(f *forged) { f.has("a", "b"); f.sees("s", "a#1 b#1") }},
		"a term has two owners": {checkTerm,
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 3, "meta-2") },
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 4, "meta-2") }},
		"the history knows another owner": {checkTerm,
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Elected([]term{{3, "meta-2"}}) },
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Elected([]term{{4, "meta-2"}, {3, "meta-1"}}) }},
		"a meta names a lower term": {checkRise,
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-1", 2, "meta-2") },
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 2, "meta-2") }},
		"the history falls": {checkRise,
			func(f *forged) { f.Elected([]term{{3, "meta-1"}, {4, "meta-2"}}) },
			func(f *forged) { f.Elected([]term{{4, "meta-2"}, {3, "meta-1"}}) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged()
			c.broken(f)
			assert.Positive(t, f.Checks()[c.check].Broken, "the forged history is accepted")
			require.NotEmpty(t, f.Violations())

			f = newForged()
			c.true(f)
			assert.Zero(t, f.Checks()[c.check].Broken, "%v", f.Violations())
			assert.Positive(t, f.Checks()[c.check].Checks, "nothing was checked")
		})
	}
}

func TestOracle_BehindComparesLastingSubscribers(t *testing.T) {
	f := newForged()
	f.has("a", "b")
	f.Subscribing("reader", "d", false) // it has seen nothing yet, and is not compared
	assert.Empty(t, f.Behind())
	f.sees("s", "a#1")
	assert.Contains(t, f.Behind(), "published is b#1")
	f.sees("s", "a#1 b#1")
	assert.Empty(t, f.Behind())
	f.has("a")
	assert.Contains(t, f.Behind(), "a#2", "the update has not arrived")
	f.sees("s", "a#2 b#1")
	f.ends("b")
	assert.Contains(t, f.Behind(), "sees b#1", "it is still shown")
	f.sees("s", "a#2")
	assert.Empty(t, f.Behind())
}

func TestOracle_ListsRepeatedViolationOnce(t *testing.T) {
	f := newForged()
	f.has("a", "b")
	f.sees("s", "a#1 b#1")
	for range 50 {
		f.sees("s", "a#1 b#1")
		f.sees("s", "a#1")
	}
	assert.Equal(t, 50, f.Checks()[checkMissing].Broken)
	assert.Equal(t, 50, f.Broken())
	assert.Len(t, f.Violations(), 1)
	f.later(2 * floodTime)
	f.sees("s", "a#1 b#1")
	f.sees("s", "b#1")
	assert.Len(t, f.Violations(), 2)
}

func TestOracle_ViolationHasRelatedEvents(t *testing.T) {
	f := newForged()
	f.BeginEpisode(7)
	f.Publishing("x", "other")
	f.has("a")
	f.Note("kill data-1: done")
	f.sees("other", "a#1")
	f.sees("s", "a#1")
	f.sees("s", "")
	v := f.Violations()[0]
	around := strings.Join(v.Around, "\n")
	assert.Equal(t, 7, v.Episode)
	for _, want := range []string{"kill data-1: done", "a is stored", "s: d version 2: a#1"} {
		assert.Contains(t, around, want)
	}
	assert.NotContains(t, around, "x is published", "of another dataId")
	assert.NotContains(t, around, "other: d version 1", "of another subscriber")
}

func TestOracle_ReturnsEventsOnce(t *testing.T) {
	f := newForged()
	f.Note("before the record begins")
	assert.Empty(t, f.Events())
	f.later(1500 * time.Millisecond)
	f.Note("one")
	assert.Equal(t, []string{"    1.500 s  one"}, f.Events())
	assert.Empty(t, f.Events())
}

// A push that arrives while its subscriber leaves is not checked.
func TestOracle_IgnoresPushesToSubscribersThatLeft(t *testing.T) {
	f := newForged()
	f.has("a")
	f.sees("s", "a#1")
	f.Unsubscribed("s", "d")
	f.Pushed("s", "d", 9, nil)
	assert.Zero(t, f.Broken())
}
