package live

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
)

// cluster notes what is done to it. No link can be cut.
type cluster struct {
	testbed.Cluster
	done    []testbed.Action
	refuses error
}

func (c *cluster) Do(ctx context.Context, a testbed.Action) error {
	c.done = append(c.done, a)
	return cmp.Or(c.refuses, ctx.Err())
}

func (c *cluster) Capabilities() *testbed.Capabilities {
	return &testbed.Capabilities{Can: func(s testbed.Step) error {
		if s.Verb == testbed.Cut {
			return testbed.ErrUnsupported
		}
		return nil
	}}
}

func source(c *cluster) *Source {
	s := New(Config{Cluster: c, HTTP: http.DefaultClient})
	s.record.rec = check.NewRecorder("test", testbed.Size{})
	s.seen = &sight{processes: []testbed.Status{
		{Name: "meta-1", Role: "meta", State: "ready"}, {Name: "meta-2", Role: "meta", State: "killed"},
		{Name: "data-1", Role: "data", State: "ready"}, {Name: "db", Role: "db", State: "ready"}, {Name: "publisher-1", Role: "client", State: "killed"},
	}}
	return s
}

func TestExplain_RefusesWhatCannotBeDone(t *testing.T) {
	s := source(&cluster{})
	for _, r := range []console.Request{
		{Do: "format"}, {Do: "kill"}, {Do: "kill", Node: "meta-9"}, {Do: "kill", Node: "publisher-1"}, {Do: "drain", Node: "meta-1"},
		{Do: "mend", Node: "meta-1"}, {Do: "mend", Node: "meta-1", Peer: "meta-1"}, {Do: "cut", Node: "meta-1", Peer: "db"},
		{Do: "scenario", Value: "nothing"}, {Do: "storm", Value: "x"},
	} {
		_, err := s.Explain(t.Context(), r)
		require.Error(t, err, "%+v", r)
		assert.Error(t, s.Act(t.Context(), r), "%+v", r)
	}
	says, err := s.Explain(t.Context(), console.Request{Do: "kill", Node: "data-1"})
	require.NoError(t, err)
	assert.Contains(t, says, "Kill -9 data-1")
	for _, o := range s.offers() {
		assert.NotEqual(t, "cut", o.Do, "the cluster cannot do it")
	}
	assert.Error(t, s.Act(t.Context(), console.Request{Do: "kill", Node: "data-1"}), "the console does not run")
}

// On containers only a meta can be cut from one other host, which is the database.
func TestOffers_CutsThatTheClusterCanMake(t *testing.T) {
	s := source(&cluster{})
	s.can = &testbed.Capabilities{Can: func(x testbed.Step) error {
		if x.Verb == testbed.Cut && !x.Whom.Everyone() && (!x.Who.IsMeta() || x.Whom != testbed.Database) {
			return testbed.ErrUnsupported
		}
		return nil
	}}
	offers := map[string]console.Offer{}
	for _, o := range s.offers() {
		offers[o.Do] = o
	}
	assert.Equal(t, []string{"meta"}, offers["cut"].Roles)
	assert.Equal(t, []string{"db"}, offers["cut"].With)
	assert.Equal(t, nodes3, offers["mend"].Roles)
	assert.Empty(t, offers["mend"].With, "any")
	for r, can := range map[console.Request]bool{
		{Do: "cut", Node: "meta-1", Peer: "db"}:     true,
		{Do: "cut", Node: "meta-1", Peer: "data-1"}: false,
		{Do: "cut", Node: "data-1", Peer: "db"}:     false,
		{Do: "isolate", Node: "data-1"}:             true,
	} {
		_, err := s.action(r)
		assert.Equal(t, can, err == nil, "%+v: %v", r, err)
	}
}

func TestPerform_ReconnectEndsCutsFromSingleNodes(t *testing.T) {
	s := source(&cluster{})
	for _, a := range []testbed.Action{
		{Verb: testbed.Cut, Node: "meta-1", Peer: "db"}, {Verb: testbed.Cut, Node: "meta-2", Peer: "meta-1"}, {Verb: testbed.Cut, Node: "meta-2", Peer: "db"},
		{Verb: testbed.Mend, Node: "meta-1"},
	} {
		require.NoError(t, s.Do(t.Context(), a))
	}
	assert.Equal(t, []testbed.Action{{Verb: testbed.Cut, Node: "meta-2", Peer: "db"}}, s.active.List())
}

func TestExplain_OnlyTheLeaderResigns(t *testing.T) {
	s := source(&cluster{})
	s.seen.leader.Leader = "meta-1"
	r := console.Request{Do: "resign", Node: "meta-2"}
	_, err := s.Explain(t.Context(), r)
	assert.ErrorContains(t, err, "meta-2 does not lead now")
	assert.ErrorContains(t, s.Act(t.Context(), r), "meta-2 does not lead now", "the leader would resign")
	_, err = s.action(console.Request{Do: "resign", Node: "meta-1"})
	assert.NoError(t, err)
}

func TestActs_WatchingChangesNothing(t *testing.T) {
	s := New(Config{HTTP: http.DefaultClient})
	assert.Equal(t, console.Nobody, s.Acts())
	assert.Empty(t, s.offers())
	assert.Equal(t, console.Holder, source(&cluster{}).Acts())
}

func TestHeal_MendsBeforeItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := source(c)
		for _, a := range []testbed.Action{
			{Verb: testbed.Forbid, Node: "data-1"}, {Verb: testbed.Kill, Node: "db"}, {Verb: testbed.Pause, Node: "meta-1"}, {Verb: testbed.Cut, Node: "meta-1", Peer: "db"},
		} {
			require.NoError(t, s.Do(t.Context(), a))
		}
		assert.False(t, s.quiet(), "faults last")
		c.done = nil
		require.NoError(t, s.heal(t.Context()))
		var verbs []testbed.Verb
		for _, a := range c.done {
			verbs = append(verbs, a.Verb)
		}
		assert.Equal(t, []testbed.Verb{testbed.Mend, testbed.Resume, testbed.Start, testbed.Start, testbed.Allow}, verbs, "meta-2 was down before")
		assert.Empty(t, s.active.List())
	})
}

// Of a slot whose leader dies while no copy has all that it has, the last changes may be lost.
func TestDo_NotesWhatOnlyTheLostNodeHas(t *testing.T) {
	s := source(&cluster{})
	s.can = &testbed.Capabilities{SlotCopies: func() []testbed.SlotCopy {
		return []testbed.SlotCopy{{Node: "data-1", Slot: 8, Leads: true, Position: 2}, {Node: "data-2", Slot: 8, Position: 1}}
	}}
	for _, node := range []string{"data-2", "data-1"} {
		require.NoError(t, s.Do(t.Context(), testbed.Action{Verb: testbed.Kill, Node: node}))
	}
	var ahead []string
	for _, e := range s.History().Entries {
		if e.Op != nil && e.Op.Kind == check.OpAhead {
			ahead = append(ahead, e.Op.Client, e.Op.Values[0])
		}
	}
	assert.Equal(t, []string{"data-1", "8"}, ahead)
}

// A console that ends while a scenario is played must not leave its faults behind.
func TestHealStopped_AlsoWhenTheConsoleEnds(t *testing.T) {
	c := &cluster{}
	s := source(c)
	ctx, cancel := context.WithCancel(t.Context())
	s.work = ctx
	require.NoError(t, s.Do(ctx, testbed.Action{Verb: testbed.Pause, Node: "meta-1"}))
	cancel()
	c.done = nil
	s.healStopped()
	s.running.Wait()
	assert.Contains(t, c.done, testbed.Action{Verb: testbed.Resume, Node: "meta-1"})
	assert.Empty(t, s.active.List())
	assert.NoError(t, s.left)

	require.NoError(t, s.Do(t.Context(), testbed.Action{Verb: testbed.Pause, Node: "meta-1"}))
	c.refuses = errors.New("no such process")
	s.healStopped()
	assert.ErrorContains(t, s.left, "heal what the scenario has left: no such process")
}

// A healing that has begun does not end with the console.
func TestHeal_GoesOnWhenTheConsoleEnds(t *testing.T) {
	c := &cluster{}
	s := source(c)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, s.Do(ctx, testbed.Action{Verb: testbed.Pause, Node: "meta-1"}))
	cancel()
	assert.NoError(t, s.heal(ctx))
	assert.Empty(t, s.active.List())
}

func TestOutcome_ShowsWhyAnActionFailed(t *testing.T) {
	s := source(&cluster{})
	s.outcome(t.Context(), "kill data-1", true, func(context.Context) error { return errors.New("no such process") })
	require.Len(t, s.outcomes, 1)
	assert.Equal(t, "failed", s.outcomes["000001"].State)
	assert.Equal(t, "no such process", s.outcomes["000001"].Error)
}

// A frozen leader is trusted until its lease ends: only then the cluster changes.
func TestOutcome_AwaitsTheEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := source(&cluster{})
		set := func(st status) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.status = st
		}
		outcome := func() console.Outcome {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.outcomes["000001"]
		}
		set(status{term: 1, atRest: true})
		var running sync.WaitGroup
		running.Go(func() {
			s.outcome(t.Context(), "freeze meta-1", true, func(context.Context) error { return nil })
		})
		time.Sleep(2900 * time.Millisecond)
		assert.Equal(t, "watching", outcome().State, "nothing has changed yet")
		set(status{term: 1, unreadable: 3})
		time.Sleep(1100 * time.Millisecond)
		set(status{term: 2, atRest: true, gaps: map[uint64]int64{2: 400}})
		time.Sleep(4500 * time.Millisecond)
		assert.Equal(t, "watching", outcome().State)
		running.Wait()
		o := outcome()
		assert.Equal(t, "settled", o.State)
		assert.EqualValues(t, 2, o.Term)
		assert.EqualValues(t, 400, o.Leaderless)
		assert.InDelta(t, 4000, o.SettledMs, 300)
		assert.Equal(t, -1, o.Slots, "without the nodes' events it is not known")
		assert.Zero(t, o.Unreadable)

		began := time.Now()
		s.outcome(t.Context(), "thaw meta-1", false, func(context.Context) error { return nil })
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}

func TestStatusOf_SuspectMemberIsNoRest(t *testing.T) {
	seen := &sight{
		believes: map[string]bool{"meta-1": true}, processes: []testbed.Status{{Name: "data-1", Role: "data", PID: 1}},
		slots: metaclient.SlotsInfo{Slots: []metaclient.SlotInfo{{Leader: "data-1", State: "stable"}}}, nodes: []metaclient.NodeInfo{{Name: "data-1", State: metaclient.NodeUp}},
	}
	assert.True(t, statusOf(seen, snapshot(seen), console.State{}).atRest)
	seen.nodes = append(seen.nodes, metaclient.NodeInfo{Name: "data-2", State: metaclient.NodeSuspect})
	assert.False(t, statusOf(seen, snapshot(seen), console.State{}).atRest)
}

func TestSize_IsThatOfTheSettings(t *testing.T) {
	seen := &sight{processes: []testbed.Status{{Name: "meta-1", Role: "meta"}}}
	assert.Equal(t, testbed.Size{Metas: 1, Replicas: 2, Takeover: "witness", Lease: 3 * time.Second}, size(seen, settings(Settings{})))
	assert.Equal(t, testbed.Size{Metas: 1, Replicas: 2, Takeover: "lease", Lease: 20 * time.Second}, size(seen, settings(Settings{Profile: "sofa"})))
	given := Settings{Replicas: 3, Takeover: "lease", Lease: time.Second, NodeLease: 9 * time.Second}
	s := New(Config{Cluster: &cluster{}, HTTP: http.DefaultClient, Settings: given})
	assert.Equal(t, testbed.Size{Metas: 1, Replicas: 3, Takeover: "lease", Lease: time.Second}, size(seen, s.cfg.Settings))
	assert.Equal(t, 9*time.Second, s.cfg.Settings.NodeLease)
	seen.leader.Leader, seen.believes = "meta-1", map[string]bool{"meta-1": true}
	assert.EqualValues(t, 1000, nodes(seen, nil, s.cfg.Settings.Lease)["meta-1"].LeaseOf)
}
