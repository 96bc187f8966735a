package scenario_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
	"conclave/wire"
)

func nodeID(name string) conclave.NodeID { return conclave.NodeID{Name: name, Incarnation: "a"} }

// fakeCluster is a cluster that makes no mistakes: it records the acts
// and their times, and its registry is a map.
type fakeCluster struct {
	cannot      testbed.Verb
	fails       testbed.Verb
	failsAfter  int           // how many acts of the verb fails succeed first
	failsWith   error         // the error of fails; nil: the engine does not answer
	noEvents    bool          // the nodes' events do not reach the gate
	noSuccessor bool          // there is no leader once the first one was killed
	silentAfter time.Duration // no push is sent after this time, if not zero
	tookAfter   time.Duration // data-1 takes a table that long after it has resumed, if not zero

	pushing sync.Mutex // held from the draw of a version to the end of its calls

	mu    sync.Mutex // guards the rest
	start time.Time
	acts  []string
	down  map[string]bool
	of    testbed.Size
	gate  *trace.Gate
	data  map[string]map[string][]string // dataId -> registration -> values
	seen  map[string][]func(conclave.Datum)
	next  int64
}

func (b *fakeCluster) Open(_ context.Context, c testbed.Size, gate *trace.Gate) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of, b.gate, b.start, b.down = c, gate, time.Now(), map[string]bool{}
	b.data, b.seen = map[string]map[string][]string{}, map[string][]func(conclave.Datum){}
	return nil
}

func (b *fakeCluster) Capabilities() *testbed.Capabilities {
	if b.noEvents {
		return &testbed.Capabilities{}
	}
	return &testbed.Capabilities{Events: true, Held: func(node string, at trace.Kind) int { return b.gate.Held(node, at) }}
}

func (b *fakeCluster) Events(func(time.Time, trace.Claim)) (bool, error) { return false, nil }

func (b *fakeCluster) Close(context.Context) error { return nil }

func (b *fakeCluster) Do(_ context.Context, a testbed.Action) error {
	if a.Verb == testbed.Kill && strings.HasPrefix(a.Node, "client-") {
		defer b.bury(a.Node)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Verb == b.cannot {
		return fmt.Errorf("%s: %w", a, testbed.ErrUnsupported)
	}
	if a.Verb == b.fails {
		if b.failsAfter--; b.failsAfter < 0 {
			return cmp.Or(b.failsWith, errors.New("the engine does not answer"))
		}
	}
	b.acts = append(b.acts, fmt.Sprintf("%s %s", time.Since(b.start).Round(time.Second), a))
	switch a.Verb {
	case testbed.Hold:
		b.gate.Hold(a.Node, a.Point)
	case testbed.Release:
		b.gate.Release(a.Node, a.Point)
	case testbed.Kill, testbed.Stop:
		b.down[a.Node] = true
	case testbed.Start:
		delete(b.down, a.Node)
	case testbed.Pause:
		if b.tookAfter > 0 {
			b.took(a.Node, 1)
			b.took("session-1", 2)
		}
	case testbed.Resume:
		if b.tookAfter > 0 {
			time.AfterFunc(b.tookAfter, func() { b.took(a.Node, 2) })
		}
	}
	return nil
}

// bury removes what a client has registered.
func (b *fakeCluster) bury(client string) {
	b.mu.Lock()
	for _, registrations := range b.data {
		maps.DeleteFunc(registrations, func(_ string, values []string) bool {
			return len(values) > 0 && strings.HasPrefix(values[0], client+"/")
		})
	}
	names := slices.Sorted(maps.Keys(b.data))
	b.mu.Unlock()
	for _, name := range names {
		b.push(name)
	}
}

func (b *fakeCluster) took(node string, seq uint64) {
	b.gate.Sink(trace.Claim{Node: nodeID(node), Kind: trace.Took, Epoch: conclave.Epoch{Term: 1, Seq: seq}})
}

func (b *fakeCluster) Observe(context.Context) testbed.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := testbed.Snapshot{Term: 1}
	for _, n := range []string{"meta-1", "meta-2", "session-1", "data-1"} {
		if !b.down[n] {
			s.Up = append(s.Up, n)
			if strings.HasPrefix(n, "meta") && s.Leader == "" {
				s.Leader, s.Leads = n, 1
			}
		}
	}
	if b.noSuccessor && s.Leader != "meta-1" {
		s.Leader, s.Leads = "", 0
	}
	for i := range b.of.Slots {
		s.Table.Slots = append(s.Table.Slots, slot.Slot{ID: i, Phase: slot.Stable, Leader: nodeID("data-1")})
	}
	return s
}

type fakeClient struct{ b *fakeCluster }

func (b *fakeCluster) Client(string) (testbed.Client, error) { return fakeClient{b}, nil }

func (c fakeClient) Connected() []conclave.NodeID { return []conclave.NodeID{nodeID("session-1")} }
func (c fakeClient) Close(context.Context) error  { return nil }

func (c fakeClient) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	c.b.mu.Lock()
	c.b.seen[dataID] = append(c.b.seen[dataID], pushed)
	c.b.mu.Unlock()
	c.b.push(dataID)
	return nil
}

func (c fakeClient) Publish(_ context.Context, dataID string, values []string) (testbed.Publication, error) {
	c.b.mu.Lock()
	c.b.next++
	p := &fakePublication{b: c.b, id: fmt.Sprint(c.b.next), dataID: dataID}
	c.b.mu.Unlock()
	return p, p.Update(values)
}

// push calls the subscribers one at a time, in order, as a Cluster's clients do.
func (b *fakeCluster) push(dataID string) {
	b.pushing.Lock()
	defer b.pushing.Unlock()
	b.mu.Lock()
	if b.silentAfter > 0 && time.Since(b.start) > b.silentAfter {
		b.mu.Unlock()
		return
	}
	b.next++
	d := conclave.Datum{Version: b.next}
	for _, values := range b.data[dataID] {
		d.Values = append(d.Values, values...)
	}
	seen := slices.Clone(b.seen[dataID])
	b.mu.Unlock()
	for _, f := range seen {
		f(d)
	}
}

type fakePublication struct {
	b          *fakeCluster
	id, dataID string
}

func (p *fakePublication) Stored(context.Context) error { return nil }
func (p *fakePublication) Withdraw() error              { return p.Update(nil) }
func (p *fakePublication) Update(values []string) error {
	p.b.mu.Lock()
	if p.b.data[p.dataID] == nil {
		p.b.data[p.dataID] = map[string][]string{}
	}
	p.b.data[p.dataID][p.id] = values
	p.b.mu.Unlock()
	p.b.push(p.dataID)
	return nil
}

func play(t *testing.T, b testbed.Cluster, text string) (r *scenario.Result) {
	s, err := scenario.Parse("fake.txt", "cluster 2 meta 1 session 1 data 4 slots 1 replicas\n"+text)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		r, err = scenario.Play(t.Context(), s, b)
	})
	require.NoError(t, err)
	return r
}

// A fault with a time ends by itself; the others are ended after the scenario,
// the network first and dead nodes last.
func TestPlay_EndsEveryFault(t *testing.T) {
	b := &fakeCluster{}
	r := play(t, b, `
clients 2 names 2 every 300ms replace 1s
at 1s pause data-1 for 2s
at 2s kill leader
at 2s cut it from db
at 4s skew clock of data-1 by 1h
at 5s kill data-1 for 20s
at 6s start the dead
until 8s`)
	assert.Empty(t, r.Problems())
	assert.Equal(t, []string{
		"1s pause data-1", "2s kill meta-1", "2s cut meta-1 from db", "3s resume data-1", "4s skew clock of data-1 by 1h0m0s",
		"5s kill data-1", "6s start data-1", "6s start meta-1", "8s mend meta-1 from db", "8s skew clock of data-1 by 0s",
	}, b.acts)
	assert.NotZero(t, len(r.History.Entries))
}

// callList is a narrator that notes what it is called with.
type callList struct{ calls []string }

func (n *callList) Begins(s scenario.Scene) { n.calls = append(n.calls, "begins "+s.Title) }

func (n *callList) Did(a testbed.Action, err error) { n.calls = append(n.calls, fmt.Sprint(a, err)) }

func (n *callList) Decided(e scenario.Expectation, _ testbed.Snapshot, took time.Duration, failure error) {
	n.calls = append(n.calls, fmt.Sprint(e.What, " ", took.Round(time.Second), failure))
}

func (n *callList) Ended(soFar func() (*check.History, error)) {
	h, err := soFar()
	n.calls = append(n.calls, fmt.Sprint("ended ", slices.ContainsFunc(h.Entries, func(e check.Entry) bool { return e.Fault != nil }), err))
}

// The times of a scene count from its beginning, which is when the one before
// it has ended and its expectations are decided.
func TestPlay_PlaysScenesOneAfterTheOther(t *testing.T) {
	b, n := &fakeCluster{noSuccessor: true}, &callList{}
	s, err := scenario.Parse("fake.txt", `cluster 2 meta 1 session 1 data 4 slots 1 replicas
clients 1
scene ONE
at 1s kill leader
at 1s expect new leader within 3s
until 2s
then
at 0s start it
scene TWO
every 1s from 2s to 4s resign meta-2
at 2s expect connected within 1s
`)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		_, err := scenario.Play(t.Context(), s, b, n)
		require.NoError(t, err)
	})
	assert.Equal(t, []string{"1s kill meta-1", "4s start meta-1", "6s resign meta-2", "7s resign meta-2", "8s resign meta-2"}, b.acts)
	assert.Equal(t, []string{
		"leader 0s <nil>", "even 0s <nil>", "full 0s <nil>", "begins ONE", "kill meta-1 <nil>", "new leader 3s line 5: expect new leader within 3s: no node leads", "start meta-1 <nil>", "ended true <nil>",
		"begins TWO", "resign meta-2 <nil>", "connected 0s <nil>", "resign meta-2 <nil>", "resign meta-2 <nil>", "ended true <nil>",
	}, n.calls)
}

// A scene shows nothing without the node that its action selects: it is waited
// for, and then the scenario fails. Elsewhere the action is left out.
func TestPlay_SceneNeedsItsTarget(t *testing.T) {
	const text = "at 0s kill leader\nat 1s kill leader\nuntil 3s"
	assert.Empty(t, play(t, &fakeCluster{noSuccessor: true}, text).Failures)
	assert.Equal(t, []string{"kill leader: no node matches"}, play(t, &fakeCluster{noSuccessor: true}, "scene A\n"+text).Failures)
	assert.Equal(t, []string{"cut data-1 from leader: no node matches"}, play(t, &fakeCluster{noSuccessor: true}, "scene A\nat 0s kill leader\nat 1s cut data-1 from leader\nuntil 3s").Failures)
	b := &fakeCluster{}
	assert.Empty(t, play(t, b, "clients 1\nscene A\nat 0s kill session of client-1").Failures)
}

func TestExpect_ReadyAndConnected(t *testing.T) {
	r := play(t, &fakeCluster{}, "clients 1\nat 1s kill session-1\nat 1s expect connected within 1s\nat 3s start session-1\nat 3s expect connected within 1s\nat 4s expect ready within 1s\nuntil 6s")
	assert.Equal(t, []string{"line 4: expect connected within 1s: client-1 is not connected", "line 7: expect ready within 1s: meta-1 is not ready"}, r.Failures)
}

// A failure names the line of the expectation that was not met.
func TestPlay_ReportsUnmetExpectations(t *testing.T) {
	r := play(t, &fakeCluster{noSuccessor: true}, `
at 1s kill leader
at 1s expect new leader within 2s
at 1s expect no leader for 1s
until 5s`)
	require.Len(t, r.Failures, 1)
	assert.Equal(t, "line 4: expect new leader within 2s: no node leads", r.Failures[0])
	assert.Equal(t, r.Failures, r.Late)
	assert.InDelta(t, 3*time.Second, r.FailedAt, float64(20*time.Millisecond))

	r = play(t, &fakeCluster{noSuccessor: true}, "at 1s kill leader for 1s\nat 1s expect same leader for 3s")
	require.Len(t, r.Failures, 1)
	assert.Contains(t, r.Failures[0], "line 3: expect same leader for 3s: false after 0s")
	assert.Empty(t, r.Late, "it is wrong, however long one waits")
}

// I10 checks a list that is not full in time, and again when the push guard's
// time has ended.
func TestPlay_ChecksShortListsTwice(t *testing.T) {
	r := play(t, &fakeCluster{silentAfter: 3 * time.Second}, "clients 2 names 1 every 1s\nuntil 5s")
	assert.Empty(t, r.Failures)
	var at []time.Duration
	for _, v := range r.Verdicts {
		if v.ID == "I10" {
			for _, x := range v.Violations {
				at = append(at, x.At.Round(time.Second))
				assert.Contains(t, x.What, "the push guard has no reason to hold client-1 service-1, client-2 service-1")
			}
		}
	}
	assert.Equal(t, []time.Duration{18 * time.Second, 43 * time.Second}, at)
}

// A node that was healed last has one lease to take the table of the others (L15).
func TestPlay_HealedNodeHasALeaseToCatchUp(t *testing.T) {
	for _, late := range []time.Duration{300 * time.Millisecond, time.Second, 5 * time.Second} {
		r := play(t, &fakeCluster{tookAfter: late}, "at 1s pause data-1 for 9s\nuntil 10s")
		lease := r.Scenario.Cluster.Lease
		assert.Equal(t, late < lease, r.Ok(), "%s of %s: %v", late, lease, r.Problems())
	}
}

func TestPlay_SkipsWhatTheClusterCannotDo(t *testing.T) {
	r := play(t, &fakeCluster{cannot: testbed.Skew}, "at 1s skew clock of db by 1h")
	assert.Contains(t, r.Skipped, "this cluster cannot do that")
	r = play(t, &fakeCluster{noEvents: true}, "only in the bubble\nat 1s kill leader for 1s")
	assert.Contains(t, r.Skipped, "only in the bubble")
	r = play(t, &fakeCluster{noEvents: true}, "at 1s expect held leader at writing within 1s")
	assert.NotEmpty(t, r.Failures)
	r = play(t, &fakeCluster{noEvents: true}, "at 1s hold leader at writing for 1s")
	assert.Contains(t, r.Skipped, "this cluster cannot do that")
}

// A fault that could not be begun or ended fails the scenario. A command of an
// operator that was refused does not.
func TestPlay_FailsWhenAFaultFails(t *testing.T) {
	r := play(t, &fakeCluster{fails: testbed.Pause}, "at 1s pause data-1 for 2s")
	assert.Equal(t, []string{"pause data-1: the engine does not answer"}, r.Failures)
	r = play(t, &fakeCluster{fails: testbed.Resume}, "at 1s pause data-1 for 2s")
	assert.Contains(t, r.Failures, "resume data-1: the engine does not answer")
	r = play(t, &fakeCluster{fails: testbed.Freeze}, "at 1s freeze for 2s")
	assert.Empty(t, r.Failures)
	assert.True(t, slices.ContainsFunc(r.History.Entries, func(e check.Entry) bool {
		return e.Fault != nil && e.Fault.Verb == testbed.Freeze && e.Fault.Err != nil
	}), "the refused command is in the history")
}

// A command that must be refused fails the scenario if it is accepted or fails
// for another reason. An internal error is a refusal only while the database
// refuses statements. Of several at once, one refusal is enough. One that must be
// accepted fails it if it is refused.
func TestPlay_FailsWhenACommandIsNotRefused(t *testing.T) {
	refusal := wire.Errorf(wire.CodeNoSuccessor, "no other session")
	broken := wire.Errorf(wire.CodeInternal, "a bug")
	const single, several = "at 1s forbid session-1 and be refused", "at 1s forbid metas at once and be refused for 2s"
	const accepted = "at 1s forbid session-1 and be accepted"
	for _, c := range []struct {
		text string
		b    *fakeCluster
		want string
	}{
		{single, &fakeCluster{fails: testbed.Forbid, failsWith: refusal}, ""},
		{single, &fakeCluster{fails: testbed.Forbid, failsWith: wire.Errorf(wire.CodeUnsafe, "a floor above all")}, ""},
		{single, &fakeCluster{}, "forbid session-1 and be refused: want a refusal, got <nil>"},
		{single, &fakeCluster{fails: testbed.Forbid}, "forbid session-1 and be refused: want a refusal, got the engine does not answer"},
		{several, &fakeCluster{fails: testbed.Forbid, failsAfter: 1, failsWith: refusal}, ""},
		{single, &fakeCluster{fails: testbed.Forbid, failsWith: broken}, "forbid session-1 and be refused: want a refusal, got " + broken.Error()},
		{"at 500ms database refuses decisions with 1366 for 2s\n" + single, &fakeCluster{fails: testbed.Forbid, failsWith: broken}, ""},
		{accepted, &fakeCluster{}, ""},
		{accepted, &fakeCluster{fails: testbed.Forbid, failsWith: refusal}, "forbid session-1 and be accepted: " + refusal.Error()},
		{several, &fakeCluster{}, "forbid meta-1 and 1 more at once: want a refusal, got [<nil> <nil>]"},
	} {
		r := play(t, c.b, c.text)
		if c.want == "" {
			assert.Empty(t, r.Failures, c.text)
			continue
		}
		assert.Contains(t, r.Failures, c.want)
	}
}

// A hold keeps a node at the point until it is released.
func TestPlay_HoldsNodeUntilReleased(t *testing.T) {
	b := &fakeCluster{}
	s, err := scenario.Parse("fake.txt", "cluster 2 meta 1 session 1 data 4 slots 1 replicas\nat 1s hold leader at writing for 3s\nat 2s expect held it at writing within 1s\nuntil 6s")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		held := make(chan time.Duration, 1)
		go func() {
			time.Sleep(1500 * time.Millisecond)
			began := time.Now()
			b.mu.Lock()
			gate := b.gate
			b.mu.Unlock()
			gate.Sink(trace.Claim{Node: nodeID("meta-1"), Kind: trace.Writing})
			held <- time.Since(began)
		}()
		r, err := scenario.Play(t.Context(), s, b)
		require.NoError(t, err)
		assert.Empty(t, r.Failures)
		assert.InDelta(t, 2.6, (<-held).Seconds(), 0.2)
	})
}

// What the history calls a datum is its name at the registry, by which its slot is known.
func TestPlay_NamesOfAGroupAreInTheHistory(t *testing.T) {
	b := &fakeCluster{}
	s, err := scenario.Parse("fake.txt", "cluster 2 meta 1 session 1 data 4 slots 1 replicas\nclients 2 names 1 every 100ms\nat 1s kill leader\nuntil 2s")
	require.NoError(t, err)
	s.Load.Group = "group."
	synctest.Test(t, func(t *testing.T) {
		r, err := scenario.Play(t.Context(), s, b)
		require.NoError(t, err)
		assert.Empty(t, r.Problems())
		names := map[string]bool{}
		for _, e := range r.History.Entries {
			if e.Op != nil && e.Op.Name != "" && e.Op.Kind != check.OpProgress {
				names[e.Op.Name] = true
			}
		}
		assert.Equal(t, map[string]bool{"group.service-1": true}, names)
		assert.Len(t, b.data, 1)
		assert.Contains(t, b.data, "group.service-1")
	})
}
