package slot_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"conclave"
	"conclave/slot"
)

// The sums are published test vectors of CRC-32C (RFC 3720, and the check value
// of the algorithm's catalogue). The slots are computed from them by hand:
// signed number, absolute value, mask. Article 000: data is sharded in slots by
// its name, and all must agree on the slot.
func TestOf_AgreesWithOriginal(t *testing.T) {
	zeros, ones := strings.Repeat("\x00", 32), strings.Repeat("\xff", 32)
	for _, c := range []struct {
		key   string
		slots int
		want  int
	}{
		{"123456789", 256, 0x7d},     // sum e3069283, negative: 1cf96d7d
		{"123456789", 16384, 0x2d7d}, //
		{"123456789", 1, 0},
		{"", 256, 0},           // sum 0
		{"a", 256, 0xd0},       // sum c1d04330, negative: 3e2fbcd0
		{"abc", 256, 0xb7},     // sum 364b3fb7, positive
		{zeros, 256, 0x56},     // sum 8a9136aa, negative: 756ec956
		{ones, 256, 0x43},      // sum 62a8ab43, positive
		{"aaaxƿNO", 256, 0},    // sum 80000000: Java's abs leaves it negative
		{"aaaxƿNO", 16384, 0},  //
		{"购物车", 256, 49},       // the bytes of UTF-8, not of UTF-16
		{"购物车", 16384, 0x3131}, // sum 0f577131
		{"com.example.Echo#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", 256, 0x4c}, // sum 3549da4c
	} {
		assert.Equal(t, c.want, slot.Of(c.key, c.slots), "%.20q in %d slots", c.key, c.slots)
	}
}

func TestOf_StaysInRangeAndNests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		slots := 1 << rapid.IntRange(0, 14).Draw(t, "slots as a power of two")
		got := slot.Of(key, slots)
		assert.True(t, 0 <= got && got < slots, "%d of %d", got, slots)
		assert.Equal(t, slot.Of(key, slot.MaxSlots)&(slots-1), got, "a table of half the slots has the same low bits")
	})
}

func TestTableOf_ReturnsRow(t *testing.T) {
	w := table(t, 256, 2, "a", "b")
	id, err := conclave.NewDataInfoID("com.example.Echo", "", "")
	assert.NoError(t, err)
	assert.Equal(t, 0x4c, w.Of(id.String()).ID)
}

func TestValidateCount(t *testing.T) {
	for _, n := range []int{1, 2, 4, 256, 16384} {
		assert.NoError(t, slot.ValidateCount(n), n)
	}
	for n, named := range map[int]string{0: "0", -4: "-4", 3: "3", 100: "100", 255: "255", 32768: "32768"} {
		assert.ErrorContains(t, slot.ValidateCount(n), "slot count "+named+" is not a power of two")
	}
}
