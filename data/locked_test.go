package data

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// A panic in a request is contained, so it must not leave the slot locked: the node
// would hang at its next beat. The slot here has a defect: it serves without a copy.
func TestRequests_PanicLeavesTheSlotUnlocked(t *testing.T) {
	epoch := conclave.Epoch{Term: 2, Seq: 5}
	next := wire.EpochOut(conclave.Epoch{Term: 3, Seq: 1})
	for name, request := range map[string]func(r *replica){
		"finish": func(r *replica) { r.finishBefore(wire.EpochIn(next), time.Now()) },
		"watch":  func(r *replica) { r.showTo(&watcher{}) },
		"feed":   func(r *replica) { r.carry(reader("x"), named(epoch, "x"), time.Now()) },
		"collect": func(r *replica) {
			r.endOlder(&wirev1.HeldCopy{LeaderEpoch: next}, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &replica{state: slot.Serving, epoch: epoch, copyEpoch: epoch, watchers: &watchers{}}
			assert.Panics(t, func() { request(r) })
			assert.True(t, r.mu.TryLock())
		})
	}
}
