package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var bounds = Bounds{First: 30 * time.Second, Late: time.Minute, Lost: 35 * time.Second}

// forged is an oracle with a clock that the test sets, and methods that feed
// it.
type forged struct {
	*Oracle
	by      *client // who publishes
	t       time.Duration
	version int64
}

func newForged() *forged {
	f := &forged{by: &client{name: "publisher", kill: func() {}}}
	f.Oracle = New(func() time.Duration { return f.t }, bounds, "of the caller")
	f.clients[f.by] = struct{}{}
	return f
}

// later advances the clock.
func (f *forged) later(d time.Duration) { f.t += d }

// begins records the next value of a registration as about to be published.
func (f *forged) begins(id, data string) {
	n := 1
	if r := f.regs[id]; r != nil {
		n = r.begun + 1
	}
	if _, err := f.publishing(f.by, data, []string{fmt.Sprintf("%s#%d", id, n)}); err != nil {
		panic(err)
	}
}

// has records registrations as published and stored on "d".
func (f *forged) has(ids ...string) {
	for _, id := range ids {
		f.begins(id, "d")
		f.stored(id, f.regs[id].begun)
	}
}

// ends records the withdrawal of a registration and its acknowledgement.
func (f *forged) ends(id string) {
	f.ending(false, id)
	f.withdrawn(id)
}

// sees records the next push of "d" to a subscriber, at the next version.
func (f *forged) sees(subscriber, values string) {
	if f.views[subscriber+" d"] == nil {
		f.subscribing(subscriber, "d")
	}
	f.version++
	f.pushed(subscriber, "d", f.version, strings.Fields(values))
}

// count returns the counts of a check.
func (f *forged) count(c Check) Count { return *f.counts[c] }

// Each checker rejects its forged history and accepts a similar one that is
// correct.
func TestOracle_RejectsForgedHistories(t *testing.T) {
	for name, c := range map[string]struct {
		check  Check
		broken func(f *forged)
		true   func(f *forged)
	}{
		"a live registration is missing": {Missing,
			func(f *forged) { f.has("a", "b", "c"); f.sees("s", "a#1 b#1 c#1"); f.sees("s", "a#1 b#1") },
			func(f *forged) {
				f.has("a", "b", "c")
				f.sees("s", "a#1 b#1 c#1")
				f.ending(false, "c") // requested, not acknowledged: it may be missing from now on
				f.sees("s", "a#1 b#1")
			}},
		"one that was stored long ago is never pushed": {Missing,
			func(f *forged) { f.sees("s", ""); f.has("a"); f.later(bounds.Late + time.Second); f.sees("s", "") },
			func(f *forged) { f.sees("s", ""); f.has("a"); f.later(time.Second); f.sees("s", "") }},
		"a first list lacks an old publisher": {First,
			func(f *forged) { f.has("a", "b"); f.later(bounds.First + time.Second); f.sees("s", "a#1") },
			func(f *forged) {
				f.has("a")
				f.later(bounds.First + time.Second)
				f.has("b") // stored just now
				f.sees("s", "a#1")
			}},
		"a list that was held loses one to another after a loss of everything": {Missing,
			func(f *forged) { f.has("a", "b"); f.sees("s", "a#1 b#1"); f.Lost(); f.has("c"); f.sees("s", "a#1 c#1") },
			func(f *forged) {
				f.has("a", "b")
				f.sees("s", "a#1 b#1")
				f.Lost()
				f.has("c")
				f.sees("s", "a#1 b#1 c#1")
			}},
		"a first list lacks one long after a loss of everything": {First,
			func(f *forged) { f.has("a"); f.Lost(); f.later(bounds.Lost + time.Second); f.sees("s", "") },
			func(f *forged) {
				f.has("a")
				f.later(bounds.Lost + time.Second)
				f.Lost()
				f.sees("s", "") // it had no list
			}},
		"a new subscriber loses what it has seen after a loss of everything": {Missing,
			func(f *forged) { f.has("a", "b"); f.Lost(); f.sees("s", "a#1 b#1"); f.sees("s", "b#1") },
			func(f *forged) {
				f.has("a", "b")
				f.Lost()
				f.later(time.Second)
				f.sees("s", "a#1")
				f.sees("s", "a#1")
			}},
		"a first list is empty": {First,
			func(f *forged) { f.has("a"); f.later(bounds.First + time.Second); f.sees("s", "") },
			func(f *forged) { f.sees("s", "") }},
		"a first list has an old withdrawal": {First,
			func(f *forged) { f.has("a"); f.ends("a"); f.later(bounds.First + time.Second); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.ends("a"); f.later(time.Second); f.sees("s", "a#1") }},
		"a first list has an old value": {First,
			func(f *forged) { f.has("a"); f.has("a"); f.later(bounds.First + time.Second); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.later(bounds.First + time.Second); f.has("a"); f.sees("s", "a#1") }},
		"what was withdrawn comes back": {Gone,
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.ends("a"); f.sees("s", ""); f.sees("s", "a#1") },
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.ends("a"); f.sees("s", "a#1"); f.sees("s", "") }},
		"what died comes back": {Gone,
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.ending(true, "a")
				f.sees("s", "")
				f.sees("s", "a#1")
			},
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.ending(true, "a")
				f.sees("s", "a#1")
				f.sees("s", "")
			}},
		"what was withdrawn stays for long": {Gone,
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.ends("a")
				f.later(bounds.Late + time.Second)
				f.sees("s", "a#1")
			},
			func(f *forged) {
				f.has("a")
				f.sees("s", "a#1")
				f.ending(true, "a") // nothing was acknowledged: it is not promised to go soon
				f.later(bounds.Late + time.Second)
				f.sees("s", "a#1")
			}},
		"a value falls back": {Back,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("s", "a#1") },
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("r", "a#1") }},
		"a value falls back after it was missing": {Back,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#2"); f.sees("s", ""); f.sees("s", "a#1") },
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1"); f.sees("s", ""); f.sees("s", "a#2") }},
		"an old value stays": {Stale,
			func(f *forged) {
				f.has("a", "a")
				f.sees("s", "a#1")
				f.later(bounds.Late + time.Second)
				f.sees("s", "a#1")
			},
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1"); f.later(time.Second); f.sees("s", "a#1") }},
		"a version comes twice": {Version,
			func(f *forged) { f.sees("s", ""); f.version--; f.sees("s", "") },
			func(f *forged) { f.sees("s", ""); f.version--; f.sees("r", "") }},
		"a version has two contents": {Content,
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.version--; f.sees("r", "") },
			func(f *forged) { f.has("a"); f.sees("s", "a#1"); f.version--; f.sees("r", "a#1") }},
		"a value was never published": {Foreign,
			func(f *forged) { f.has("a"); f.sees("s", "a#2") },
			func(f *forged) { f.has("a"); f.begins("a", "d"); f.sees("s", "a#2") }},
		"a value belongs to another dataId": {Foreign,
			func(f *forged) { f.begins("a", "e"); f.sees("s", "a#1") },
			func(f *forged) { f.begins("a", "d"); f.sees("s", "a#1") }},
		"a registration comes twice": {Foreign,
			func(f *forged) { f.has("a", "a"); f.sees("s", "a#1 a#2") },
			func(f *forged) { f.has("a", "b"); f.sees("s", "a#1 b#1") }},
		"a term has two owners": {Owner,
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 3, "meta-2") },
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 4, "meta-2") }},
		"a meta names a lower term": {Rise,
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-1", 2, "meta-2") },
			func(f *forged) { f.Led("meta-1", 3, "meta-1"); f.Led("meta-2", 2, "meta-2") }},
		"a history lists a term twice": {Rise,
			func(f *forged) { f.Elected("now", 3, "meta-1"); f.Elected("now", 3, "meta-1") },
			func(f *forged) {
				f.Led("meta-1", 3, "meta-1")
				f.Led("meta-1", 3, "meta-1")
				f.Elected("now", 3, "meta-1")
				f.Elected("now", 4, "meta-2")
				f.Elected("later", 3, "meta-1")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged()
			c.broken(f)
			assert.Positive(t, f.count(c.check).Broken, "the forged history is accepted")
			require.NotEmpty(t, f.Violations())

			f = newForged()
			c.true(f)
			assert.Zero(t, f.count(c.check).Broken, "%v", f.Violations())
			assert.Positive(t, f.count(c.check).Checks, "nothing was checked")
		})
	}
}

func TestOracle_BehindComparesSubscribersThatAreNotNew(t *testing.T) {
	f := newForged()
	f.has("a", "b")
	f.subscribing("s", "d")
	began := f.t
	f.later(time.Second)
	f.subscribing("reader", "d")
	assert.Contains(t, f.Behind(began), "s sees map[] of d; published is map[a:1 b:1]", "it has seen nothing")
	f.sees("s", "a#1")
	assert.Contains(t, f.Behind(began), "published is map[a:1 b:1]")
	f.sees("s", "a#1 b#1")
	assert.Empty(t, f.Behind(began), "the reader began later")
	assert.Contains(t, f.Behind(f.t), "reader sees")
	f.ended(&client{name: "reader"}, true)
	assert.Empty(t, f.Behind(f.t))
	f.has("a")
	assert.Contains(t, f.Behind(f.t), "map[a:2 b:1]", "the update has not arrived")
	f.ends("b")
	f.sees("s", "a#2 b#1")
	assert.Contains(t, f.Behind(f.t), "sees map[a:2 b:1]", "it is still shown")
	f.sees("s", "a#2")
	assert.Empty(t, f.Behind(f.t))
	f.subscribing("s", "empty")
	assert.Contains(t, f.Behind(f.t), "s sees map[] of empty", "an empty list is pushed, too")
}

// Each list was right at some moment, and each has lost a push.
func TestOracle_BehindWantsAllListsAtOneMoment(t *testing.T) {
	f := newForged()
	f.has("a")
	f.sees("s", "a#1")
	f.subscribing("r", "d")
	assert.Contains(t, f.Behind(f.t), "r sees")
	f.has("a")
	f.pushed("r", "d", 2, []string{"a#2"})
	assert.Contains(t, f.Behind(f.t), "s sees")
	f.pushed("s", "d", 2, []string{"a#2"})
	assert.Empty(t, f.Behind(f.t))
}

func TestOracle_UnheardNamesWhatIsNotAcknowledged(t *testing.T) {
	f := newForged()
	f.begins("a", "d")
	f.later(time.Second)
	assert.Equal(t, "a#1 of d, begun 1s ago, is not acknowledged as stored", f.Unheard())
	f.stored("a", 1)
	assert.Empty(t, f.Unheard())
	f.begins("a", "d")
	assert.Contains(t, f.Unheard(), "a#2 of d", "a change")
	f.stored("a", 2)
	f.ending(false, "a")
	f.later(time.Second)
	assert.Equal(t, "the withdrawal of a of d, begun 1s ago, is not acknowledged", f.Unheard())
	f.withdrawn("a")
	assert.Empty(t, f.Unheard())
	f.begins("b", "d")
	f.ended(f.by, false)
	assert.Contains(t, f.Unheard(), "the withdrawal of b", "its client says good-bye")
	f.ended(f.by, true)
	assert.Empty(t, f.Unheard(), "no client waits for it")
}

// Work that began before does not show that the cluster serves now.
func TestOracle_IdleUntilNewClientsAreServed(t *testing.T) {
	f := newForged()
	f.has("old")
	f.later(time.Second)
	since := f.t
	f.sees("s", "old#1")
	f.ends("old")
	assert.Contains(t, f.Idle(since), "no new registration")
	f.has("a", "b")
	f.ends("b")
	assert.Contains(t, f.Idle(since), "no new registration", "it was not shown")
	f.sees("s", "a#1")
	f.ends("a")
	assert.Contains(t, f.Idle(since), "no change")
	f.has("c")
	f.begins("c", "d")
	f.sees("s", "c#2")
	assert.Contains(t, f.Idle(since), "no change", "it is not stored")
	f.stored("c", 2)
	assert.Empty(t, f.Idle(since))
	f.later(time.Second)
	since = f.t
	f.has("d")
	f.sees("s", "c#2 d#1")
	f.ends("d")
	f.has("c")
	assert.Contains(t, f.Idle(since), "no change", "it is not shown")
	f.sees("s", "c#3")
	assert.Contains(t, f.Idle(since), "no new subscriber")
	f.sees("r", "c#3")
	assert.Empty(t, f.Idle(since))
}

func TestFindings_ListTheFirstViolationsOfAnEpisode(t *testing.T) {
	f := newForged()
	f.has("a", "b")
	f.sees("s", "a#1 b#1")
	for range 50 {
		f.sees("s", "a#1 b#1")
		f.sees("s", "a#1")
	}
	assert.Equal(t, 50, f.count(Missing).Broken)
	assert.Equal(t, 50, f.Broken())
	assert.Len(t, f.Violations(), listAtMost)
	f.Begin(2)
	f.sees("s", "a#1 b#1")
	f.sees("s", "b#1")
	assert.Len(t, f.Violations(), listAtMost+1)
}

func TestOracle_ViolationHasRelatedEvents(t *testing.T) {
	f := newForged()
	f.Begin(7)
	f.begins("x", "other")
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

func TestFindings_CountTheCallersChecks(t *testing.T) {
	f := newForged()
	f.Expect("of the caller", true, "")
	f.Expect("of the caller", false, "%d nodes", 3)
	all := f.Counts()
	assert.Equal(t, Count{"of the caller", 2, 1}, all[len(all)-1])
	assert.Equal(t, "3 nodes", f.Violations()[0].Text)
}

// A push that arrives while its subscriber leaves is not checked.
func TestOracle_IgnoresPushesToSubscribersThatLeft(t *testing.T) {
	f := newForged()
	f.has("a")
	f.sees("s", "a#1")
	f.ended(&client{name: "s"}, true)
	f.pushed("s", "d", 9, nil)
	assert.Zero(t, f.Broken())
}
