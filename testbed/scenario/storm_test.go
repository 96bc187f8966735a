package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// A seed always gives the same storm, which can be written and parsed again,
// and whose faults end before the storm does.
func TestStorm_IsReproducible(t *testing.T) {
	seen := map[testbed.Verb]bool{}
	for seed := range uint64(300) {
		s := scenario.Storm(seed, nil)
		assert.Equal(t, s, scenario.Storm(seed, nil))
		again, err := scenario.Parse("storm.txt", s.String())
		require.NoError(t, err, s.String())
		assert.Equal(t, s.String(), again.String())
		for _, step := range s.Lines {
			seen[step.Step.Verb] = true
			assert.LessOrEqual(t, step.At+step.Step.For, s.Until, step.String())
		}
	}
	for _, v := range []testbed.Verb{
		testbed.Kill, testbed.Stop, testbed.Pause, testbed.Cut, testbed.CutOne, testbed.Slow, testbed.Reset, testbed.HalfOpen,
		testbed.LoseNext, testbed.Skew, testbed.Hold, testbed.Resign,
		testbed.Forbid, testbed.Quit, testbed.Freeze, testbed.Switch, testbed.Refuse,
	} {
		assert.True(t, seen[v], "no storm has ever %s", v)
	}
}

// A storm contains no verb that its ground cannot play. In storms of the
// limited theme two sessions are never in trouble within one grace.
func TestStorm_RespectsCapabilitiesAndSessionLimit(t *testing.T) {
	limited := 0
	for seed := range uint64(300) {
		s := scenario.Storm(seed, without(testbed.Hold, testbed.Skew))
		one := strings.Contains(s.About, "at most one session")
		if one {
			limited++
		}
		var ends time.Duration
		for _, step := range s.Lines {
			d := step.Step
			assert.NotContains(t, []testbed.Verb{testbed.Hold, testbed.Skew}, d.Verb)
			if !one || !strings.HasPrefix(string(d.Who), "session-") && !strings.HasPrefix(string(d.Whom), "session-") {
				continue
			}
			assert.GreaterOrEqual(t, step.At, ends, "seed %d: %s", seed, s)
			ends = step.At + d.For + 10*time.Second
		}
	}
	assert.Positive(t, limited)
}

// A few hundred storms contain the situations that single faults do not
// produce: outages of one and of two whole roles, shorter and longer than each
// grace, drains of the last node, a drain while a node is paused, and two
// commands of an operator within a second.
func TestStorm_CoversCombinedFaults(t *testing.T) {
	drawn := map[string]int{}
	count := func(what string, holds bool) {
		if holds {
			drawn[what]++
		}
	}
	for seed := range uint64(400) {
		s := scenario.Storm(seed, nil)
		// away returns for how long the verbs affect all nodes of a role at
		// once.
		away := func(role string, n int, verbs ...testbed.Verb) time.Duration {
			from, to, nodes := time.Duration(0), time.Hour, map[testbed.Selector]bool{}
			for _, step := range s.Lines {
				d := step.Step
				if strings.HasPrefix(string(d.Who), role) && slices.Contains(verbs, d.Verb) && step.At <= to {
					from, to = max(from, step.At), min(to, step.At+d.For)
					nodes[d.Who] = true
				}
			}
			if len(nodes) < n {
				return 0
			}
			return max(0, to-from)
		}
		ill := []testbed.Verb{testbed.Kill, testbed.Pause}
		for _, role := range []struct {
			name string
			n    int
		}{{"session", s.Cluster.Sessions}, {"data", s.Cluster.Datas}, {"meta", s.Cluster.Metas}} {
			d := away(role.name, role.n, ill...)
			count(role.name+" away shortly", d > 0 && d < 3*time.Second)
			count(role.name+" away for 5 s", d > 5*time.Second)
			count(role.name+" away for 16 s", d > 16*time.Second)
			count(role.name+" all drained", away(role.name, role.n, testbed.Forbid) > 0)
		}
		count("sessions and data away", away("session", s.Cluster.Sessions, ill...) > 0 && away("data", s.Cluster.Datas, ill...) > 0)
		for i, a := range s.Lines {
			for _, b := range s.Lines[i+1:] {
				both := a.At <= b.At && b.At < a.At+a.Step.For
				count("a drain while a session is paused", both && a.Step.Verb == testbed.Pause && strings.HasPrefix(string(a.Step.Who), "session") && b.Step.Verb == testbed.Forbid)
				count("a crash within a second of a drain", a.Step.Verb == testbed.Forbid && b.Step.Verb == testbed.Kill && b.At-a.At <= time.Second)
				count("two drains within a second", a.Step.Verb == testbed.Forbid && b.Step.Verb == testbed.Forbid && b.At-a.At <= time.Second)
			}
		}
		count("guests", s.Load.Guests > 0)
		count("readers", s.Load.Readers > 0)
	}
	for _, what := range []string{
		"session away shortly", "session away for 5 s", "session away for 16 s", "session all drained",
		"data away shortly", "data away for 5 s", "data away for 16 s", "data all drained",
		"meta away shortly", "meta away for 5 s", "meta away for 16 s", "meta all drained",
		"sessions and data away", "a drain while a session is paused", "a crash within a second of a drain", "two drains within a second",
		"guests", "readers",
	} {
		assert.Positive(t, drawn[what], what)
	}
}

// without returns a ground on which the verbs are not possible.
func without(verbs ...testbed.Verb) *testbed.Capabilities {
	return &testbed.Capabilities{Can: func(d testbed.Step) error {
		if slices.Contains(verbs, d.Verb) {
			return fmt.Errorf("%s: %w", d.Verb, testbed.ErrUnsupported)
		}
		return nil
	}}
}

// A ground that allows everything changes no storm. On another ground the
// storms have about as many faults, a cluster of the ground's size, and no
// fault that it refuses.
func TestStorm_FitsItsCapabilities(t *testing.T) {
	narrow := without(testbed.Hold, testbed.Skew, testbed.Slow, testbed.Reset, testbed.HalfOpen, testbed.LoseNext, testbed.CutOne)
	verbs := narrow.Can
	narrow.Can = func(d testbed.Step) error {
		if d.Verb == testbed.Cut && !d.Whom.Everyone() {
			return fmt.Errorf("a pair: %w", testbed.ErrUnsupported)
		}
		return verbs(d)
	}
	narrow.Size = func(c testbed.Size) testbed.Size {
		c.Metas, c.Sessions, c.Datas = 1, 1, 2
		return c
	}
	wide, fewer, alone := 0, 0, 0
	for seed := range uint64(300) {
		anywhere := scenario.Storm(seed, nil)
		assert.Equal(t, anywhere, scenario.Storm(seed, &testbed.Capabilities{}))
		s := scenario.Storm(seed, narrow)
		assert.Equal(t, s, scenario.Storm(seed, narrow))
		assert.Empty(t, s.Refusals(narrow), s.String())
		assert.Equal(t, 2, s.Cluster.Datas)
		wide, fewer = wide+len(anywhere.Lines), fewer+len(s.Lines)
		for _, step := range s.Lines {
			assert.NotContains(t, []testbed.Selector{"meta-2", "session-2", "data-3"}, step.Step.Who)
			if step.Step.Verb == testbed.Cut {
				alone++
			}
		}
	}
	assert.Greater(t, fewer, wide/2, "a fault that is not possible is drawn again")
	assert.Positive(t, alone, "a node that cannot be cut from one peer is cut from all")
}

func TestRefusals_GiveReasons(t *testing.T) {
	s, err := scenario.Parse("scenario.txt", "cluster 3 meta 1 session 3 data\nat 1s skew clock of meta-1 by 1h\nat 2s skew clock of meta-2 by 1h\nat 3s kill leader\nat 4s heal all\n")
	require.NoError(t, err)
	g := without(testbed.Skew)
	assert.Equal(t, []string{"skew"}, s.Refusals(g))
	g.Size = func(c testbed.Size) testbed.Size { c.Sessions = 2; return c }
	assert.Equal(t, []string{"a cluster of 3 metas, 1 sessions and 3 data nodes", "skew"}, s.Refusals(g))
	assert.Empty(t, s.Refusals((*testbed.Capabilities)(nil)))
	s.Bubble = true
	assert.Contains(t, s.Refusals(g), "virtual time")
}

// The shrunk scenario keeps only the steps that the failure needs, and shortens
// them.
func TestShrink_KeepsWhatTheFailureNeeds(t *testing.T) {
	var s scenario.Scenario
	for i := range 40 {
		s.Lines = append(s.Lines, scenario.Line{At: time.Duration(i) * time.Second, Step: &testbed.Step{Verb: testbed.Pause, Who: "meta-1", For: 8 * time.Second}})
	}
	s.Lines[11].Step = &testbed.Step{Verb: testbed.Kill, Who: "data-1", For: 8 * time.Second}
	s.Lines[29].Step = &testbed.Step{Verb: testbed.Kill, Who: "data-2", For: 8 * time.Second}
	plays := 0
	short := scenario.Shrink(s, func(s scenario.Scenario) bool {
		plays++
		has := func(who testbed.Selector) bool {
			return slices.ContainsFunc(s.Lines, func(x scenario.Line) bool { return x.Step.Who == who && x.Step.For >= 2*time.Second })
		}
		return has("data-1") && has("data-2")
	})
	require.Len(t, short.Lines, 2)
	assert.Equal(t, "at 11s kill data-1 for 2s", short.Lines[0].String())
	assert.Equal(t, "at 29s kill data-2 for 2s", short.Lines[1].String())
	assert.Less(t, plays, 80)
	assert.Equal(t, 8*time.Second, s.Lines[11].Step.For, "what was given is not changed")
}

// Storms cut a session off from all other nodes for longer than its grace, and a
// data node from all sessions.
func TestStorm_CutsNodesOff(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range uint64(300) {
		for _, line := range scenario.Storm(seed, nil).Lines {
			role, _, _ := strings.Cut(string(line.Step.Who), "-")
			if line.Step.For > check.SessionGrace+3*time.Second || role == "data" {
				drawn[fmt.Sprint(role, " ", line.Step.Whom)] = true
			}
		}
	}
	for _, what := range []string{"session metas", "session datas", "data sessions", "data datas"} {
		assert.True(t, drawn[what], "no storm has ever cut %s", what)
	}
}

// Every sixth storm updates an application, and every sixth that may resets a client's
// connections while a session is paused, when nothing else has failed for a session
// grace.
func TestStorm_UpdatesAndBlips(t *testing.T) {
	updated, blips := 0, 0
	for seed := range uint64(300) {
		s := scenario.Storm(seed, nil)
		assert.Zero(t, scenario.Storm(seed, without(testbed.Hold)).Load.Rolling, "clients linger in the simulator only")
		if s.Load.Rolling > 0 {
			updated++
		}
		last := s.Lines[len(s.Lines)-1]
		if last.Step.Verb != testbed.Reset || !strings.HasPrefix(string(last.Step.Who), "client-") {
			continue
		}
		blips++
		for _, line := range s.Lines {
			among := line.At+line.Step.For < last.At-check.SessionGrace-8*time.Second
			assert.True(t, among || line.Step.Verb == testbed.Reset || line.Step.Verb == testbed.ClosePort || line.Step.Verb == testbed.Pause, "seed %d: %s", seed, line)
		}
	}
	assert.InDelta(t, 300/6, updated, 15)
	assert.InDelta(t, 300/8, blips, 15)
}

// A quarter of the clients are those of SOFARegistry, which are simulated only.
func TestStorm_HasClientsOfSOFARegistry(t *testing.T) {
	share, storms := 0.0, 0
	for seed := range uint64(400) {
		s := scenario.Storm(seed, nil)
		assert.Zero(t, scenario.Storm(seed, without(testbed.Hold)).Load.Sofa)
		if s.Cluster.Budgets != (testbed.Budgets{}) {
			assert.Zero(t, s.Load.Sofa)
			continue
		}
		if storms++; s.Load.Sofa > 0 {
			share += 1 / float64(s.Load.Sofa)
		}
	}
	assert.InDelta(t, 0.25, share/float64(storms), 0.02)
}
