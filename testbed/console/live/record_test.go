package live

import (
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
		r.fault(time.Now(), testbed.Action{Verb: testbed.Pause, Node: "meta-1"}, nil)
		time.Sleep(time.Second)
		r.event(time.Now(), led("meta-2", 7)) // a second owner of the term
		time.Sleep(readBehind / 2)
		r.readUntil(time.Now())
		_, err := r.check(rec, time.Now())
		require.NoError(t, err)
		assert.Nil(t, r.broken, "what was read a moment ago may be incomplete")

		time.Sleep(time.Second)
		r.readUntil(time.Now())
		_, err = r.check(rec, time.Now())
		require.NoError(t, err)
		var out console.State
		r.show(&out)
		require.NotNil(t, out.Broken)
		assert.Equal(t, "I1", out.Broken.ID)
		assert.Contains(t, out.Broken.Before[1], "FAULT pause meta-1")
		assert.Equal(t, 1, out.Promises["I1"].Broken)
		assert.Len(t, out.Promises, len(check.Checkers()))
	})
}

// A later history adds to the first one, and does not run the checkers that would
// misjudge it.
func TestRecordCheck_LaterHistoryAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := check.NewRecorder("console", testbed.Size{Metas: 3})
		r := &record{
			meter: newMeter(), rec: rec, traced: true, first: "only until 12:00:00",
			closed: map[string]console.Promise{"I1": {ID: "I1", Checks: 5, Since: 1}, "L4": {ID: "L4", Checks: 9, Since: 1}},
		}
		r.event(time.Now(), led("meta-1", 8))
		r.event(time.Now(), trace.Claim{Node: conclave.NodeID{Name: "session-1", Incarnation: "a"}, Kind: trace.Accepted, Slot: 3, Subject: "r", Key: "orders", Version: 1})
		r.event(time.Now(), trace.Claim{Node: conclave.NodeID{Name: "data-1", Incarnation: "a"}, Kind: trace.Stored, Slot: 3, Subject: "r", Key: "orders", Version: 1, Peer: conclave.NodeID{Name: "session-1", Incarnation: "a"}, Epoch: conclave.Epoch{Term: 7, Seq: 1}})
		time.Sleep(time.Second)
		r.readUntil(time.Now())
		_, err := r.check(rec, time.Now())
		require.NoError(t, err)
		assert.Nil(t, r.broken, "that the node leads the slot was recorded in the first history")
		assert.Greater(t, r.promises["I1"].Checks, 5)
		assert.EqualValues(t, 1, r.promises["I1"].Since)
		assert.Equal(t, 9, r.promises["L4"].Checks)
		assert.Contains(t, r.checking.How, "L4, L12 only until 12:00:00")

		r.first = ""
		_, err = r.check(rec, time.Now())
		require.NoError(t, err)
		assert.NotNil(t, r.broken, "the first history has everything from the beginning")
	})
}
