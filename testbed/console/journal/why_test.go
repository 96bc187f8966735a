package journal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
)

// run is a recording that a test writes by hand. Times are milliseconds.
type run struct{ records []journal.Record }

func (r *run) add(ms int, x journal.Record) int {
	x.At = time.Duration(ms) * time.Millisecond
	if x.Entry != nil {
		x.Entry.At = x.At
	}
	r.records = append(r.records, x)
	return len(r.records) - 1
}

func (r *run) sent(ms int, from, to, what string, kind journal.MessageKind) int {
	return r.add(ms, journal.Record{Message: &journal.Message{From: from, To: to, What: what, Kind: kind, Conn: 1, Fate: journal.Arrived, Took: time.Millisecond}})
}

func (r *run) claim(ms int, node string, c trace.Claim) int {
	c.Node = conclave.NodeID{Name: node, Incarnation: "1"}
	return r.add(ms, journal.Record{Entry: &check.Entry{Event: &c}})
}

func (r *run) act(ms int, verb testbed.Verb, node string, point trace.Kind) int {
	return r.add(ms, journal.Record{Entry: &check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: verb, Node: node, Point: point}}}})
}

var beginning = time.Unix(5000, 0).UTC()

// told returns the sentences of a chain, and checks its order.
func told(t *testing.T, links []journal.Link) (out []string) {
	require.LessOrEqual(t, len(links), 12)
	for i, l := range links {
		assert.LessOrEqual(t, l.At, links[max(0, i-1)].At)
		out = append(out, l.What)
	}
	return out
}

func TestWhy_ExpiredLeaseLeadsToTheFreeze(t *testing.T) {
	r := &run{}
	r.claim(0, "meta-1", trace.Claim{Kind: trace.Led, Term: 1, Until: beginning.Add(3 * time.Second)})
	r.act(100, testbed.Kill, "data-1", "") // has nothing to do with it
	r.claim(1000, "meta-1", trace.Claim{Kind: trace.Extended, Term: 1, Until: beginning.Add(4 * time.Second)})
	r.act(1500, testbed.Pause, "meta-1", "")
	r.sent(4100, "meta-2", "db", "SQL look", journal.Request)
	r.sent(4101, "db", "meta-2", "SQL look", journal.Answer)
	r.claim(4102, "meta-2", trace.Claim{Kind: trace.Swapping, Epoch: conclave.Epoch{Term: 2}, Peer: conclave.NodeID{Name: "meta-1"}})
	asked := r.sent(4102, "meta-2", "db", "SQL win expired", journal.Request)
	r.sent(4103, "db", "meta-2", "SQL win expired: 1 changed", journal.Answer)
	led := r.claim(4104, "meta-2", trace.Claim{Kind: trace.Led, Term: 2, Until: beginning.Add(7 * time.Second)})
	links := journal.Why(r.records, beginning, led)
	assert.Equal(t, []string{
		"meta-2 becomes the leader of term 2", "db answers meta-2: SQL win expired: 1 changed", "meta-2 decides to take over as leader of term 2", "db answers meta-2: SQL look",
		"done to the cluster: pause meta-1", "meta-1 renews its trust as leader of term 1, until 4.000 s",
	}, told(t, links))
	assert.Equal(t, asked, links[1].Asked)
	assert.Equal(t, "    4.104s meta-2 becomes the leader of term 2", links[0].String())
}

// A statement waits at the database until another node has won: the violation leads to both.
func TestWhyBroken_LeadsToWhatWasHeldAndToTheHold(t *testing.T) {
	r := &run{}
	r.act(900, testbed.Kill, "data-1", "")
	r.sent(900, "data-1", "meta-1", "connection: closed", journal.Transport)
	r.act(950, testbed.Hold, "meta-1", trace.Landing)
	r.claim(1000, "meta-1", trace.Claim{Kind: trace.Writing, Subject: "table"})
	r.sent(1000, "meta-1", "db", "SQL write", journal.Request)
	r.claim(1001, "meta-1", trace.Claim{Kind: trace.Landing, Subject: "write", Key: "table"})
	win := r.claim(3000, "meta-2", trace.Claim{Kind: trace.Landed, Subject: "win", Term: 2})
	r.act(5000, testbed.Release, "meta-1", trace.Landing)
	late := r.claim(5000, "meta-1", trace.Claim{Kind: trace.Landed, Subject: "write", Key: "table"})
	v := check.Violation{At: 5 * time.Second, What: "a late write", Evidence: []string{r.records[win].Entry.String(), r.records[late].Entry.String()}}
	links := journal.WhyBroken(r.records, beginning, "I3", v)
	assert.Equal(t, []string{
		"I3: a late write", "meta-1 has the database execute the write table of term 0", "done to the cluster: release meta-1 at landing",
		"meta-2 has the database execute the win of term 2; nothing reached db at that instant", "meta-1 has the database hold the write table of term 0",
		"meta-1 asks db: SQL write", "meta-1 believes to lead, and decides to write table of term 0", "done to the cluster: hold meta-1 at landing",
		"data-1 sends meta-1: connection: closed", "done to the cluster: kill data-1",
	}, told(t, links))
	assert.Equal(t, -1, links[0].Record)

	links = journal.WhyBroken(r.records, beginning, "L1", check.Violation{At: 2 * time.Second, What: "no entry shows it"})
	assert.Equal(t, []string{"L1: no entry shows it", "done to the cluster: hold meta-1 at landing"}, told(t, links))
	links = journal.WhyBroken(r.records[len(r.records)-2:], beginning, "L1", check.Violation{At: 9 * time.Second, What: "every fault has ended"})
	assert.Equal(t, []string{"L1: every fault has ended", "done to the cluster: release meta-1 at landing"}, told(t, links))
	links = journal.WhyBroken(nil, beginning, "L1", check.Violation{What: "by itself"})
	assert.Equal(t, []string{"L1: by itself; nothing was done before it"}, told(t, links))
}

func TestWhy_IsBoundedAndKeepsItsBeginning(t *testing.T) {
	r := &run{}
	r.act(0, testbed.Kill, "data-1", "")
	last := r.sent(0, "data-1", "data-2", "connection: closed", journal.Transport)
	for ms := 1; ms < 100; ms++ {
		ends := []string{"data-2", "data-3"}
		last = r.sent(ms, ends[(ms+1)%2], ends[ms%2], "Write", journal.Request)
	}
	links := journal.Why(r.records, beginning, last)
	out := told(t, links)
	assert.Len(t, out, 12)
	assert.Equal(t, "done to the cluster: kill data-1", out[11])
	assert.Equal(t, 1, strings.Count(strings.Join(out, "\n"), "kill"))
}

func TestWhy_OfWhatHasNoCause(t *testing.T) {
	r := &run{}
	n := r.sent(5, "data-1", "data-2", "Fetch", journal.Request)
	assert.Equal(t, []string{"data-1 asks data-2: Fetch; nothing reached data-1 at that instant"}, told(t, journal.Why(r.records, beginning, n)))
	answer := r.sent(6, "data-2", "data-1", "Fetch: 1 slot", journal.Answer)
	links := journal.Why(r.records, beginning, answer)
	assert.Equal(t, []string{"data-2 answers data-1: Fetch: 1 slot; nothing reached data-1 at that instant"}, told(t, links), "of the request, which is in the same link")
	assert.Equal(t, n, links[0].Asked)
	found := r.add(6, journal.Record{Entry: &check.Entry{Op: &check.Op{Kind: check.OpProgress, Name: "leader"}}})
	assert.Regexp(t, "; nothing was done before it$", told(t, journal.Why(r.records, beginning, found))[0])
	kill := r.act(6, testbed.Kill, "data-1", "")
	assert.Equal(t, []string{"done to the cluster: kill data-1"}, told(t, journal.Why(r.records, beginning, kill)))
	assert.Empty(t, journal.Why(r.records, beginning, 99))
	assert.Empty(t, journal.Why(nil, beginning, -1))
}
