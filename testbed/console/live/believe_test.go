package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/internal/trace"
)

func TestBeliefs_EndWithTrustOrBefore(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	claim := func(node string, kind trace.Kind, term uint64, until int) trace.Claim {
		return trace.Claim{Node: conclave.NodeID{Name: node, Incarnation: "a"}, Kind: kind, Term: term, Until: at(until)}
	}
	var b beliefs
	b.note(at(0), claim("meta-1", trace.Led, 1, 3000))
	b.note(at(1000), claim("meta-1", trace.Extended, 1, 4000))
	assert.True(t, b.show(at(2000))["meta-1 1"].Open)
	assert.Zero(t, b.show(at(2000))["meta-1 1"].To, "it does not change with each renewal")

	b.note(at(2500), claim("meta-2", trace.Led, 2, 5500))
	shown := b.show(at(4500)) // meta-1 was frozen: it has recorded no end
	assert.False(t, shown["meta-1 1"].Open)
	assert.Equal(t, at(4000).UnixMilli(), shown["meta-1 1"].To)

	b.note(at(5000), claim("meta-2", trace.Left, 2, 0))
	assert.Equal(t, at(5000).UnixMilli(), b.show(at(5001))["meta-2 2"].To)

	b.note(at(6000), claim("meta-3", trace.Led, 3, 9000))
	b.ended(at(6500), "meta-3") // killed
	assert.Equal(t, at(6500).UnixMilli(), b.show(at(6501))["meta-3 3"].To)
}
