package conclave_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
)

func TestNodeID_RoundTrip(t *testing.T) {
	id := conclave.NodeID{Name: "meta-1", Incarnation: conclave.NewIncarnation(rand.New(rand.NewPCG(1, 2)))}
	got, err := conclave.ParseNodeID(id.String())
	require.NoError(t, err)
	assert.Equal(t, id, got)

	zero, err := conclave.ParseNodeID("")
	require.NoError(t, err)
	assert.True(t, zero.IsZero())
	for _, bad := range []string{"meta-1", "meta-1@", "@x", "-meta@x", "a b@x"} {
		_, err := conclave.ParseNodeID(bad)
		assert.ErrorContains(t, err, "node", bad)
	}
}

// A restarted node is a different owner. The original, which identifies nodes
// by IP address, lets a restarted leader keep its old term with an empty
// memory.
func TestNewIncarnation_Differs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for range 1000 {
		seen[conclave.NewIncarnation(r)] = true
	}
	assert.Len(t, seen, 1000)
}

func TestEpoch_OrderIsTermThenSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) conclave.Epoch {
			return conclave.Epoch{Term: rapid.Uint64Range(0, 3).Draw(t, name), Seq: rapid.Uint64Range(0, 3).Draw(t, name)}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		assert.Equal(t, a.Compare(b), -b.Compare(a))
		assert.Equal(t, a == b, a.Compare(b) == 0)
		if a.Less(b) && b.Less(c) {
			assert.True(t, a.Less(c))
		}
		if a.Term < b.Term {
			assert.True(t, a.Less(b), "for any sequence numbers")
		}
		assert.False(t, a.Less(conclave.Epoch{}), "the zero epoch is older than all")
	})
}

func TestDataInfoID_FillsDefaultsAndChecksLimits(t *testing.T) {
	id, err := conclave.NewDataInfoID("com.example.Greeter:1.0", "", "")
	require.NoError(t, err)
	assert.Equal(t, "com.example.Greeter:1.0#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", id.String())
	again, err := conclave.ParseDataInfoID(id.String())
	require.NoError(t, err)
	assert.Equal(t, id, again)

	_, err = conclave.NewDataInfoID(strings.Repeat("ü", conclave.MaxDataID), "", "")
	assert.NoError(t, err, "the limit counts characters, not bytes")
	for want, bad := range map[string]string{
		"empty":             "",
		"256 characters":    strings.Repeat("x", conclave.MaxDataID+1),
		"'='":               "a=b",
		"#@#":               "a#@#b",
		"control character": "a\nb",
		"UTF-8":             "a\xff",
		"halves":            "a#@", // with the instance "#t": the same key as a in "@#t"
	} {
		_, err := conclave.NewDataInfoID(bad, "", "")
		assert.ErrorContains(t, err, want)
	}
	_, err = conclave.NewDataInfoID("a", "in=stance", "")
	assert.ErrorContains(t, err, "instance")
	_, err = conclave.ParseDataInfoID("a#@#b")
	assert.ErrorContains(t, err, "want DATAID")
}

func TestValidateValues_ChecksLimits(t *testing.T) {
	assert.NoError(t, conclave.ValidateValues([]string{"", strings.Repeat("x", conclave.MaxValue)}))
	assert.ErrorContains(t, conclave.ValidateValues([]string{"ok", strings.Repeat("x", conclave.MaxValue+1)}), "value 1 has 65537 bytes")
	assert.ErrorContains(t, conclave.ValidateValues([]string{"\xff"}), "UTF-8")
	assert.ErrorContains(t, conclave.ValidateValues(make33()), "together")
}

// make33 returns 33 values at the limit, together more than half of a request.
func make33() []string {
	var out []string
	for range 33 {
		out = append(out, strings.Repeat("x", conclave.MaxValue))
	}
	return out
}
