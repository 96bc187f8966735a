package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
)

// A seed always gives the same storm, which can be written and parsed again,
// and whose faults end before the storm does.
func TestStorm_IsReproducible(t *testing.T) {
	seen := map[chaos.Verb]bool{}
	for seed := range uint64(300) {
		s := chaos.Storm(seed, nil)
		assert.Equal(t, s, chaos.Storm(seed, nil))
		again, err := chaos.Parse("storm.txt", s.String())
		require.NoError(t, err, s.String())
		assert.Equal(t, s.String(), again.String())
		for _, step := range s.Steps {
			seen[step.Deed.Verb] = true
			assert.LessOrEqual(t, step.At+step.Deed.For, s.Until, step.String())
		}
	}
	for _, v := range []chaos.Verb{
		chaos.Kill, chaos.Stop, chaos.Pause, chaos.Cut, chaos.CutOne, chaos.Slow, chaos.Reset, chaos.HalfOpen,
		chaos.LoseNext, chaos.Skew, chaos.Hold, chaos.Resign,
		chaos.Forbid, chaos.Quit, chaos.Freeze, chaos.Switch,
	} {
		assert.True(t, seen[v], "no storm has ever %s", v)
	}
}

// A storm contains no verb that its ground cannot play. In storms of the
// limited theme two sessions are never in trouble within one grace.
func TestStorm_RespectsGroundAndSessionLimit(t *testing.T) {
	limited := 0
	for seed := range uint64(300) {
		s := chaos.Storm(seed, without(chaos.Hold, chaos.Skew))
		one := strings.Contains(s.About, "at most one session")
		if one {
			limited++
		}
		var ends time.Duration
		for _, step := range s.Steps {
			d := step.Deed
			assert.NotContains(t, []chaos.Verb{chaos.Hold, chaos.Skew}, d.Verb)
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
		s := chaos.Storm(seed, nil)
		// away returns for how long the verbs affect all nodes of a role at
		// once.
		away := func(role string, n int, verbs ...chaos.Verb) time.Duration {
			from, to, nodes := time.Duration(0), time.Hour, map[chaos.Selector]bool{}
			for _, step := range s.Steps {
				d := step.Deed
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
		ill := []chaos.Verb{chaos.Kill, chaos.Pause}
		for _, role := range []struct {
			name string
			n    int
		}{{"session", s.Cluster.Sessions}, {"data", s.Cluster.Datas}, {"meta", s.Cluster.Metas}} {
			d := away(role.name, role.n, ill...)
			count(role.name+" away shortly", d > 0 && d < 3*time.Second)
			count(role.name+" away for 5 s", d > 5*time.Second)
			count(role.name+" away for 16 s", d > 16*time.Second)
			count(role.name+" all drained", away(role.name, role.n, chaos.Forbid) > 0)
		}
		count("sessions and data away", away("session", s.Cluster.Sessions, ill...) > 0 && away("data", s.Cluster.Datas, ill...) > 0)
		for i, a := range s.Steps {
			for _, b := range s.Steps[i+1:] {
				both := a.At <= b.At && b.At < a.At+a.Deed.For
				count("a drain while a session is paused", both && a.Deed.Verb == chaos.Pause && strings.HasPrefix(string(a.Deed.Who), "session") && b.Deed.Verb == chaos.Forbid)
				count("a crash within a second of a drain", a.Deed.Verb == chaos.Forbid && b.Deed.Verb == chaos.Kill && b.At-a.At <= time.Second)
				count("two drains within a second", a.Deed.Verb == chaos.Forbid && b.Deed.Verb == chaos.Forbid && b.At-a.At <= time.Second)
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
func without(verbs ...chaos.Verb) *chaos.Ground {
	return &chaos.Ground{Can: func(d chaos.Deed) error {
		if slices.Contains(verbs, d.Verb) {
			return fmt.Errorf("%s: %w", d.Verb, chaos.ErrUnsupported)
		}
		return nil
	}}
}

// A ground that allows everything changes no storm. On another ground the
// storms have about as many faults, a cluster of the ground's size, and no
// fault that it refuses.
func TestStorm_FitsItsGround(t *testing.T) {
	narrow := without(chaos.Hold, chaos.Skew, chaos.Slow, chaos.Reset, chaos.HalfOpen, chaos.LoseNext, chaos.CutOne)
	verbs := narrow.Can
	narrow.Can = func(d chaos.Deed) error {
		if d.Verb == chaos.Cut && !d.Whom.Everyone() {
			return fmt.Errorf("a pair: %w", chaos.ErrUnsupported)
		}
		return verbs(d)
	}
	narrow.Size = func(c chaos.Cluster) chaos.Cluster {
		c.Metas, c.Sessions, c.Datas = 1, 1, 2
		return c
	}
	wide, fewer, alone := 0, 0, 0
	for seed := range uint64(300) {
		anywhere := chaos.Storm(seed, nil)
		assert.Equal(t, anywhere, chaos.Storm(seed, &chaos.Ground{}))
		s := chaos.Storm(seed, narrow)
		assert.Equal(t, s, chaos.Storm(seed, narrow))
		assert.Empty(t, narrow.Refuses(s), s.String())
		assert.Equal(t, 2, s.Cluster.Datas)
		wide, fewer = wide+len(anywhere.Steps), fewer+len(s.Steps)
		for _, step := range s.Steps {
			assert.NotContains(t, []chaos.Selector{"meta-2", "session-2", "data-3"}, step.Deed.Who)
			if step.Deed.Verb == chaos.Cut {
				alone++
			}
		}
	}
	assert.Greater(t, fewer, wide/2, "a fault that is not possible is drawn again")
	assert.Positive(t, alone, "a node that cannot be cut from one peer is cut from all")
}

func TestGround_RefusesWithReasons(t *testing.T) {
	s, err := chaos.Parse("scenario.txt", "cluster 3 meta 1 session 3 data\nat 1s skew clock of meta-1 by 1h\nat 2s skew clock of meta-2 by 1h\nat 3s kill leader\nat 4s heal all\n")
	require.NoError(t, err)
	g := without(chaos.Skew)
	assert.Equal(t, []string{"skew"}, g.Refuses(s))
	g.Size = func(c chaos.Cluster) chaos.Cluster { c.Sessions = 2; return c }
	assert.Equal(t, []string{"a cluster of 3 metas, 1 sessions and 3 data nodes", "skew"}, g.Refuses(s))
	assert.Empty(t, (*chaos.Ground)(nil).Refuses(s))
	s.Bubble = true
	assert.Contains(t, g.Refuses(s), "only in the bubble")
}

func TestUnderway_ListsFaultsUntilTheyEnd(t *testing.T) {
	var u chaos.Underway
	list := func() (out []string) {
		for _, a := range u.List() {
			out = append(out, a.String())
		}
		return out
	}
	for _, a := range []chaos.Act{
		{Verb: chaos.Kill, Node: "client-1"}, {Verb: chaos.Resign, Node: "meta-1"}, {Verb: chaos.Start, Node: "data-9"}, // none of these lasts
		{Verb: chaos.Kill, Node: "data-1"}, {Verb: chaos.Skew, Node: "db", By: time.Hour}, {Verb: chaos.Cut, Node: "meta-1", Peer: "db"}, {Verb: chaos.Stop, Node: "data-1"},
	} {
		u.Note(a)
	}
	assert.Equal(t, []string{"skew clock of db by 1h0m0s", "cut meta-1 from db", "stop data-1"}, list())
	for _, a := range []chaos.Act{{Verb: chaos.Start, Node: "data-1"}, {Verb: chaos.Skew, Node: "db"}} {
		u.Note(a)
	}
	assert.Equal(t, []string{"cut meta-1 from db"}, list())
}

// The shrunk scenario keeps only the steps that the failure needs, and shortens
// them.
func TestShrink_KeepsWhatTheFailureNeeds(t *testing.T) {
	var s chaos.Scenario
	for i := range 40 {
		s.Steps = append(s.Steps, chaos.Step{At: time.Duration(i) * time.Second, Deed: &chaos.Deed{Verb: chaos.Pause, Who: "meta-1", For: 8 * time.Second}})
	}
	s.Steps[11].Deed = &chaos.Deed{Verb: chaos.Kill, Who: "data-1", For: 8 * time.Second}
	s.Steps[29].Deed = &chaos.Deed{Verb: chaos.Kill, Who: "data-2", For: 8 * time.Second}
	plays := 0
	short := chaos.Shrink(s, func(s chaos.Scenario) bool {
		plays++
		has := func(who chaos.Selector) bool {
			return slices.ContainsFunc(s.Steps, func(x chaos.Step) bool { return x.Deed.Who == who && x.Deed.For >= 2*time.Second })
		}
		return has("data-1") && has("data-2")
	})
	require.Len(t, short.Steps, 2)
	assert.Equal(t, "at 11s kill data-1 for 2s", short.Steps[0].String())
	assert.Equal(t, "at 29s kill data-2 for 2s", short.Steps[1].String())
	assert.Less(t, plays, 80)
	assert.Equal(t, 8*time.Second, s.Steps[11].Deed.For, "what was given is not changed")
}
