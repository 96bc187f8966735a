package journal

import "conclave/testbed"

// tag is the kind of a record in a block.
type tag byte

const (
	tagState tag = iota + 1
	tagMessage
	tagEvent
	tagFault
	tagOp
	tagObserved
	tagUsage
)

// The fields of an event or an op that are not zero, as bits before them.
const (
	hasPeer = 1 << iota
	hasTerm
	hasBeat
	hasEpoch
	hasBase
	hasSlot
	hasSubject
	hasKey
	hasVersion
	hasCount
	hasFlag
	hasErr
	hasUntil
)

// fault is check.Fault with its error as text.
type fault struct {
	Action testbed.Action
	Undo   bool
	Err    string
}
