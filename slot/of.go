package slot

import (
	"fmt"
	"hash/crc32"
)

// MaxSlots is the most slots that a table may have: the original's width of a
// slot id.
const MaxSlots = 1 << 14

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ValidateCount says whether a cluster may have that many slots: a power of
// two, since Of masks instead of dividing, from 1 to MaxSlots. The original
// masks too, but takes any count, and leaves slots without keys.
func ValidateCount(slots int) error {
	if slots < 1 || slots > MaxSlots || slots&(slots-1) != 0 {
		return fmt.Errorf("slot count %d is not a power of two from 1 to %d", slots, MaxSlots)
	}
	return nil
}

// Of is the slot of a key, usually a conclave.DataInfoID's String, in a table of
// that many slots (a count that ValidateCount accepts). It is byte-compatible
// with the original: the CRC-32C of the UTF-8 bytes as a signed number, its
// absolute value, masked.
func Of(key string, slots int) int {
	sum := int32(crc32.Checksum([]byte(key), castagnoli))
	if sum < 0 {
		// As in Java, the most negative number stays negative; its low bits
		// are zeros, so the mask makes slot 0 of it.
		sum = -sum
	}
	return int(sum) & (slots - 1)
}

// Of is the row that answers for key. The table must not be empty.
func (t Table) Of(key string) Slot { return t.Slots[Of(key, len(t.Slots))] }
