package console_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/console"
)

func TestBeliefs_EndWithTrustOrBefore(t *testing.T) {
	b := console.Beliefs{}
	b.Trusts("meta-1", 1, 10_000, 13_000)
	b.Trusts("meta-1", 1, 11_000, 14_000)
	assert.Equal(t, console.Span{Node: "meta-1", Term: 1, From: 10_000, Open: true}, b.At(12_000)["meta-1 1"], "it does not change with each renewal")

	b.Trusts("meta-2", 2, 12_500, 15_500) // meta-1 was frozen: it has recorded no end
	assert.Equal(t, console.Span{Node: "meta-1", Term: 1, From: 10_000, To: 14_000}, b.At(14_500)["meta-1 1"])

	b.Left("meta-2", 2, 15_000)
	b.Trusts("meta-2", 2, 15_100, 19_000) // what was read late
	assert.EqualValues(t, 15_000, b.At(15_001)["meta-2 2"].To)

	b.Trusts("meta-3", 3, 16_000, 19_000)
	b.Left("meta-3", 0, 16_500) // killed
	assert.EqualValues(t, 16_500, b.At(16_501)["meta-3 3"].To)
	for term := range uint64(300) {
		b.Trusts("meta-1", 4+term, 20_000, 21_000)
	}
	assert.Len(t, b, 200)
	assert.Empty(t, b.Of("meta-3", 3))
}
