package live

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
)

func led(node string, term uint64) trace.Claim {
	return trace.Claim{Node: conclave.NodeID{Name: node, Incarnation: "a"}, Kind: trace.Led, Term: term, Until: time.Now().Add(time.Second)}
}

func TestRecordCheck_FindsTheFirstViolationAndWhatWasBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := check.NewRecorder("console", testbed.Size{Metas: 3})
		r := &record{meter: newMeter(), rec: rec, traced: true}
		r.event(time.Now(), led("meta-1", 7))
		note(r.rec, time.Now(), testbed.Action{Verb: testbed.Pause, Node: "meta-1"}, nil)
		time.Sleep(time.Second)
		r.event(time.Now(), led("meta-2", 7)) // a second owner of the term
		time.Sleep(readBehind / 2)
		r.took(time.Now(), true, nil)
		r.check(rec, time.Now(), time.Time{})
		assert.Nil(t, r.broken, "what was read a moment ago may be incomplete")

		time.Sleep(time.Second)
		r.took(time.Now(), true, nil)
		r.check(rec, time.Now(), time.Time{})
		var out console.State
		r.show(&out)
		require.NotNil(t, out.Broken)
		assert.Equal(t, "I1", out.Broken.ID)
		assert.Contains(t, out.Broken.Before[1], "FAULT pause meta-1")
		assert.Equal(t, 1, out.Promises["I1"].Broken)
		assert.Len(t, out.Promises, len(check.Run(&check.History{})))
	})
}

// A later history begins where the one before was checked, and what is counted adds up.
func TestRecordResume_BeginsAnotherHistoryAndAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving := func(seq uint64) trace.Claim {
			return trace.Claim{Node: conclave.NodeID{Name: "data-1", Incarnation: "a"}, Kind: trace.Serving, Slot: 3, Epoch: conclave.Epoch{Term: 7, Seq: seq}}
		}
		r := &record{meter: newMeter(), size: testbed.Size{Metas: 3}, traced: true}
		begin := func() *check.Recorder {
			rec := r.resume()
			time.Sleep(time.Second)
			return rec
		}
		checked := func(rec *check.Recorder) {
			time.Sleep(time.Hour)
			r.took(time.Now(), true, nil)
			r.check(rec, time.Now(), time.Time{})
			r.closed = r.promises
		}
		rec := begin()
		r.event(time.Now(), led("meta-1", 8))
		rec.Op(check.Op{Client: "client-1", Kind: check.OpPublish, Name: "s", ID: "client-1/1", Version: 1})
		checked(rec)
		for n := range 3 {
			rec = begin()
			assert.Zero(t, rec.Len())
			r.event(time.Now(), serving(uint64(n+1)))
			checked(rec)
		}
		assert.Nil(t, r.broken)
		assert.Equal(t, 6, r.promises["I5"].Checks)
		assert.Equal(t, 1, r.promises["I1"].Checks, "the election was checked once")

		rec = begin()
		r.event(time.Now(), serving(5))
		r.event(time.Now(), serving(4))
		checked(rec)
		assert.Equal(t, 1, r.promises["I5"].Broken, "data-1 goes back")
	})
}

// A history is bounded, also while faults last. What was cut off was checked, and the page says that it is no longer kept.
func TestRecord_HistoryIsBounded(t *testing.T) {
	const limit, perSecond = 200, 50
	for name, c := range map[string]struct {
		quiet bool
		most  int
	}{"at rest": {true, limit}, "while faults last": {false, 2 * limit}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Cluster: &host{}, HTTP: http.DefaultClient, Aside: func(check func(), _ bool) { check() }, Entries: limit})
				s.record.quiet = func() bool { return c.quiet }
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { s.record.run(ctx) })
				synctest.Wait()
				longest, sent := 0, 0
				for range 120 {
					for range perSecond {
						sent++
						s.Claim(trace.Claim{Node: conclave.NodeID{Name: "data-1", Incarnation: "a"}, Kind: trace.Serving, Slot: 3, Epoch: conclave.Epoch{Term: 7, Seq: uint64(sent)}})
					}
					time.Sleep(time.Second)
					synctest.Wait()
					longest = max(longest, s.record.current().Len())
				}
				cancel()
				running.Wait()
				assert.Greater(t, longest, c.most)
				assert.Less(t, longest, c.most+10*perSecond, "what comes until the next check, and while clients end")
				var out console.State
				s.record.show(&out)
				assert.Contains(t, out.Checking.How, "what was recorded before is checked, and no longer kept")
				assert.Less(t, out.Checking.Entries, c.most+10*perSecond)
				assert.Greater(t, out.Promises["I5"].Checks, sent-c.most-10*perSecond, "each entry is checked")
			})
		})
	}
}
