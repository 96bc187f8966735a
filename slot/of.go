package slot

import (
	"fmt"
	"hash/crc32"
)

// MaxSlots is the largest number of slots in a table, given by the width of a
// slot id in the original.
const MaxSlots = 1 << 14

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ValidateCount returns an error unless slots is a power of two from 1 to
// MaxSlots. Powers of two are required because Of masks instead of dividing.
// The original masks too, but accepts any count, which leaves slots without
// keys.
func ValidateCount(slots int) error {
	if slots < 1 || slots > MaxSlots || slots&(slots-1) != 0 {
		return fmt.Errorf("slot count %d is not a power of two from 1 to %d", slots, MaxSlots)
	}
	return nil
}

// Of returns the slot of a key, usually a conclave.DataInfoID's String, in a
// table of that many slots (a count that ValidateCount accepts). It is
// byte-compatible with the original: the CRC-32C of the UTF-8 bytes as a signed
// number, its absolute value, masked.
func Of(key string, slots int) int {
	sum := int32(crc32.Checksum([]byte(key), castagnoli))
	if sum < 0 {
		// As in Java, the most negative number stays negative. Its low bits are
		// zero, so the mask turns it into slot 0.
		sum = -sum
	}
	return int(sum) & (slots - 1)
}

// Of returns the row of the slot that key belongs to. The table must not be
// empty.
func (t Table) Of(key string) Slot { return t.Slots[Of(key, len(t.Slots))] }
