package live

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/wire"
)

// cluster notes what is done to it. No link can be cut.
type cluster struct {
	testbed.Cluster
	done []testbed.Action
}

func (c *cluster) Do(_ context.Context, a testbed.Action) error {
	c.done = append(c.done, a)
	return nil
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
	s.seen = &sight{processes: []process{
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

func TestAct_WatchingChangesNothing(t *testing.T) {
	s := New(Config{HTTP: http.DefaultClient})
	for _, do := range []string{"kill", "heal", "load-up", "scenario", "scenario-stop"} {
		r := console.Request{Do: do, Node: "meta-1"}
		_, err := s.Explain(t.Context(), r)
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(err), do)
		assert.Equal(t, wire.CodeForbidden, wire.CodeOf(s.Act(t.Context(), r)), do)
	}
	assert.Empty(t, s.offers())
}

func TestHeal_MendsBeforeItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		s := source(c)
		for _, a := range []testbed.Action{
			{Verb: testbed.Forbid, Node: "data-1"}, {Verb: testbed.Kill, Node: "db"}, {Verb: testbed.Pause, Node: "meta-1"}, {Verb: testbed.Cut, Node: "meta-1", Peer: "db"},
		} {
			require.NoError(t, s.perform(t.Context(), a))
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

func TestOutcome_ShowsWhyAnActionFailed(t *testing.T) {
	s := source(&cluster{})
	s.outcome(t.Context(), "kill data-1", func(context.Context) error { return errors.New("no such process") })
	require.Len(t, s.outcomes, 1)
	assert.Equal(t, "failed", s.outcomes["000001"].State)
	assert.Equal(t, "no such process", s.outcomes["000001"].Error)
}
