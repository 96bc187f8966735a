package blacklist_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"conclave"
	"conclave/blacklist"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var since = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

func drain(name, incarnation string) blacklist.Entry {
	return blacklist.Drain(conclave.NodeID{Name: name, Incarnation: incarnation}, conclave.RoleData, since)
}

func byOperator(name, by string) blacklist.Entry {
	return blacklist.Entry{Name: name, Role: conclave.RoleData, Reason: "broken disk", By: by, Since: since}
}

func with(t testing.TB, entries ...blacklist.Entry) blacklist.Set {
	var s blacklist.Set
	for _, e := range entries {
		var err error
		s, _, err = s.Add(e)
		require.NoError(t, err)
	}
	return s
}

// The result of adding an entry over another.
func TestAdd_OverAnEntry(t *testing.T) {
	later := drain("data-1", "i1")
	later.Since = since.Add(time.Hour)
	for _, c := range []struct {
		what    string
		old     blacklist.Entry
		add     blacklist.Entry
		changed bool
	}{
		{"the same drain again, later", drain("data-1", "i1"), later, false},
		{"the drain of a newer incarnation", drain("data-1", "i1"), drain("data-1", "i2"), true},
		{"the same operator again", byOperator("data-1", "ann"), byOperator("data-1", "ann"), false},
		{"another operator", byOperator("data-1", "ann"), byOperator("data-1", "bob"), true},
		{"an operator over a drain", drain("data-1", "i1"), byOperator("data-1", "ann"), true},
		{"a drain over an operator's", byOperator("data-1", "ann"), drain("data-1", "i1"), false},
	} {
		s := with(t, c.old)
		next, changed, err := s.Add(c.add)
		require.NoError(t, err)
		assert.Equal(t, c.changed, changed, c.what)
		want := c.old
		if c.changed {
			want = c.add
		}
		assert.Equal(t, blacklist.Set{want}, next, c.what)
		assert.Equal(t, blacklist.Set{c.old}, s, "the original set is unchanged")
	}
}

// Article 002: the last step of a data node's start is to leave the blacklist;
// but a restart does not revert an operator's decision.
func TestArticleANodeTakesBackOnlyItsOwnDrain(t *testing.T) {
	started := conclave.NodeID{Name: "data-1", Incarnation: "i2"}
	next, changed := with(t, drain("data-1", "i1"), drain("data-2", "i1")).RemoveOwn(started)
	assert.True(t, changed)
	assert.Equal(t, []string{"data-2"}, next.Names())

	for what, s := range map[string]blacklist.Set{
		"an operator's entry":                    with(t, byOperator("data-1", "ann")),
		"an operator's entry made over a drain":  with(t, drain("data-1", "i1"), byOperator("data-1", "ann")),
		"an operator's, a drain came after it":   with(t, byOperator("data-1", "ann"), drain("data-1", "i1")),
		"an operator's, for the reason of drain": with(t, blacklist.Entry{Name: "data-1", Role: conclave.RoleData, Reason: blacklist.ReasonDrain, By: "ann"}),
		"its present incarnation's drain":        with(t, drain("data-1", "i2")),
		"another node's":                         with(t, drain("data-10", "i1")),
		"nothing":                                {},
	} {
		next, changed := s.RemoveOwn(started)
		assert.False(t, changed, what)
		assert.Equal(t, s, next, what)
	}
}

func TestRemove_RemovesAnyEntry(t *testing.T) {
	s := with(t, drain("data-1", "i1"), byOperator("data-2", "ann"))
	for _, name := range []string{"data-1", "data-2"} {
		next, changed := s.Remove(name)
		assert.True(t, changed)
		assert.False(t, next.Has(name))
		assert.True(t, s.Has(name), "the original set is unchanged")
		_, changed = next.Remove(name)
		assert.False(t, changed, "removing again changes nothing")
	}
}

func TestAdd_RefusesInvalidEntry(t *testing.T) {
	for want, e := range map[string]blacklist.Entry{
		`node name "a b"`:                   byOperator("a b", "ann"),
		`unknown role ""`:                   {Name: "data-1", By: "ann"},
		"has no requester":                  byOperator("data-1", ""),
		"own and has no incarnation":        drain("data-1", ""),
		`entry meta-1: unknown role "boss"`: {Name: "meta-1", Role: "boss", By: "ann"},
	} {
		s := with(t, byOperator("data-9", "ann"))
		next, changed, err := s.Add(e)
		assert.ErrorIs(t, err, blacklist.ErrInvalid)
		assert.ErrorContains(t, err, want)
		assert.False(t, changed)
		assert.Equal(t, s, next)
	}
}

func TestSet_Validate(t *testing.T) {
	require.NoError(t, with(t, byOperator("data-2", "ann"), drain("data-1", "i1")).Validate())
	require.NoError(t, blacklist.Set{}.Validate())
	for want, bad := range map[string]blacklist.Set{
		"entry data-1 after data-1": {byOperator("data-1", "ann"), byOperator("data-1", "bob")},
		"entry data-1 after data-2": {byOperator("data-2", "ann"), byOperator("data-1", "ann")},
		`unknown role ""`:           {{Name: "data-2", By: "ann"}},
	} {
		err := bad.Validate()
		assert.ErrorIs(t, err, blacklist.ErrInvalid)
		assert.ErrorContains(t, err, want)
	}
}

// For any order of requests the list is sorted and has each name once, and no
// restart removes an operator's entry.
func TestSet_RequestsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s blacklist.Set
		operators := map[string]bool{}
		name := rapid.SampledFrom([]string{"data-1", "data-2", "session-1"})
		incarnation := rapid.SampledFrom([]string{"i1", "i2", "i3"})
		took := func(t *rapid.T, next blacklist.Set, changed bool) {
			require.Equal(t, changed, !slices.Equal(s, next))
			s = next
		}
		t.Repeat(map[string]func(*rapid.T){
			"drain": func(t *rapid.T) {
				n := name.Draw(t, "name")
				next, changed, err := s.Add(drain(n, incarnation.Draw(t, "incarnation")))
				require.NoError(t, err)
				took(t, next, changed)
				require.True(t, s.Has(n))
			},
			"forbid": func(t *rapid.T) {
				n := name.Draw(t, "name")
				next, changed, err := s.Add(byOperator(n, rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "by")))
				require.NoError(t, err)
				took(t, next, changed)
				operators[n] = true
			},
			"start": func(t *rapid.T) {
				n := conclave.NodeID{Name: name.Draw(t, "name"), Incarnation: incarnation.Draw(t, "incarnation")}
				next, changed := s.RemoveOwn(n)
				took(t, next, changed)
			},
			"allow": func(t *rapid.T) {
				n := name.Draw(t, "name")
				next, changed := s.Remove(n)
				took(t, next, changed)
				delete(operators, n)
				require.False(t, s.Has(n))
			},
			"": func(t *rapid.T) {
				require.NoError(t, s.Validate())
				for n := range operators {
					require.True(t, slices.ContainsFunc(s, func(e blacklist.Entry) bool { return e.Name == n && !e.Own() }), "%s: %+v", n, s)
				}
			},
		})
	})
}
