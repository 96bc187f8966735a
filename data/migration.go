package data

import (
	"time"

	"conclave"
	"conclave/slot"
)

// migration takes one slot from its grant to the moment at which this node
// serves it. It belongs to the state loop. (syncMigrating in article 002, where
// one task for each session must succeed.)
//
//	             Finish answered            position reached
//	finishing ------------------> applying ------------------> (serve)
//	    |  refused, or 300 ms    ^   |  300 ms                    ^
//	    v    a holder has the rest   v                            |
//	collecting: the other live holders are asked. A migration     |
//	    |       without a source, after a crash, begins here      |
//	    | all have answered, or 300 ms                            |
//	    v                                                         |
//	 asking: all sessions that must have answered a fenced diff --+
//
// From asking it may go back to finishing; see needsSource. Without another live
// holder, collecting is left out; see holders.go.
type migration struct {
	r     *replica
	row   slot.Slot // the grant
	epoch conclave.Epoch
	phase phase

	source      conclave.NodeID
	sourceEpoch conclave.Epoch
	sent        bool              // Finish was sent, or the holders were asked
	position    uint64            // the source's last position
	counter     int64             // the source's
	pushed      int64             // the highest version that a session has pushed, or that a client of it claims to have
	marked      time.Time         // when the source's marks end
	incomplete  time.Time         // when the source's mark as incomplete ends
	without     []conclave.NodeID // sessions without which the source served
	deadline    time.Time         // of finishing, applying and collecting
	again       bool              // the source was asked again
	taken       bool              // the copy has everything that the source had
	collected   bool              // the source did not answer, and the other holders were asked instead

	holders map[conclave.NodeID]bool // other live holders that have not answered yet

	began       time.Time                // the grant: since then no node serves the slot, as far as this node knows
	asked       map[conclave.NodeID]bool // sessions that were ever asked
	pending     map[conclave.NodeID]bool // asked, and not yet answered or given up
	answered    map[conclave.NodeID]bool // sessions whose diff is complete
	firstAnswer time.Time                // when the first session answered
	absent      map[conclave.NodeID]bool // not on the list, not connected, and did not answer
	warned      time.Time                // when the sessions that are waited for were last logged
}

// phase is how far a migration is; see migration.
type phase int

const (
	finishing phase = iota
	applying
	asking
	collecting
)

// noteAnswer records the result of a session's fenced diff.
func (m *migration) noteAnswer(session conclave.NodeID, highest int64, err error) {
	delete(m.pending, session)
	if err != nil {
		m.absent[session] = true // asked again if it returns; see unanswered
		return
	}
	if len(m.answered) == 0 {
		m.firstAnswer = time.Now()
	}
	m.answered[session] = true
	delete(m.absent, session)
	m.pushed = max(m.pushed, highest)
}
