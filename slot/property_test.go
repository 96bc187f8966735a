package slot_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/slot"
)

// Whatever happens to nodes, heartbeats and leaders, no table of Arrange
// violates an invariant; and once the faults have ended, drains finish, copies
// are complete and leaders are even.
func TestArrange_InvariantsHoldInAnyStorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(w.actions())
		w.calm()
	})
}

func (w *world) actions() map[string]func(*rapid.T) {
	pickUp := func(t *rapid.T) *dataNode {
		names := w.names(true)
		if len(names) == 0 {
			t.Skip("no node is up")
		}
		return w.nodes[rapid.SampledFrom(names).Draw(t, "node")]
	}
	anyName := func(t *rapid.T) string {
		return rapid.SampledFrom(append(w.names(true), w.names(false)...)).Draw(t, "name")
	}
	return map[string]func(*rapid.T){
		"join": func(t *rapid.T) {
			if len(w.nodes) == 6 {
				t.Skip("enough nodes")
			}
			w.start(fmt.Sprintf("data-%d", len(w.nodes)+1))
		},
		"die": func(t *rapid.T) { pickUp(t).up = false },
		"restart": func(t *rapid.T) {
			w.start(anyName(t)) // also a node whose death was not noticed
		},
		"forbid":   func(t *rapid.T) { w.forbidden[anyName(t)] = true },
		"allow":    func(t *rapid.T) { delete(w.forbidden, anyName(t)) },
		"unheard":  func(t *rapid.T) { w.unheard[anyName(t)] = true },
		"heard":    func(t *rapid.T) { delete(w.unheard, anyName(t)) },
		"freeze":   func(t *rapid.T) { w.frozen = !w.frozen },
		"deliver":  func(t *rapid.T) { w.deliver(pickUp(t)) },
		"arrange":  func(t *rapid.T) { w.arrange() },
		"arrange2": func(t *rapid.T) { w.arrange() }, // twice as likely as the others
		"work": func(t *rapid.T) {
			mask := rapid.Uint32().Draw(t, "slots that advance")
			w.work(pickUp(t), func(id int) bool { return mask>>id&1 == 1 })
		},
		"beat": func(t *rapid.T) {
			n := pickUp(t)
			w.reported[n.id] = n.reports()
		},
		"a beat is delayed": func(t *rapid.T) {
			n := pickUp(t)
			w.late = append(w.late, beat{n.id, n.reports()})
		},
		"a delayed beat arrives, in part": func(t *rapid.T) {
			if len(w.late) == 0 {
				t.Skip("no beat is delayed")
			}
			i := rapid.IntRange(0, len(w.late)-1).Draw(t, "beat")
			b := w.late[i]
			w.late = append(w.late[:i], w.late[i+1:]...)
			w.reported[b.from] = b.reports[:rapid.IntRange(0, len(b.reports)).Draw(t, "reports of it")]
		},
		"another leader": func(t *rapid.T) {
			// The new leader has no reports, counts from 1 in its term, and
			// seals the stored table again.
			w.term, w.seq = w.term+1, 1
			clear(w.reported)
			next := w.table.At(conclave.Epoch{Term: w.term, Seq: w.seq})
			require.NoError(t, slot.Monotone(w.table, next))
			w.table = next
		},
	}
}

// calm ends the faults and checks the table at which Arrange stops.
func (w *world) calm() {
	t := w.t
	w.frozen, w.handBacks = false, make(map[int]int)
	clear(w.unheard)
	defer func() { w.handBacks = nil }()
	w.settle()
	open := w.open()
	if len(open) == 0 {
		return // no node may be given a slot, so dead leaders stay
	}
	require.True(t, w.table.StableAll(), "%+v", w.table)
	require.True(t, w.table.Even(open), "leaders are not even: %+v", w.table)
	for _, s := range w.table.Slots {
		require.True(t, s.Leaving.IsZero(), "slot %d: %s has not left", s.ID, s.Leaving)
		followers := 0
		for _, f := range s.Followers {
			require.True(t, w.up(f), "slot %d: follower %s is dead", s.ID, f)
			if w.mayHold(f) {
				followers++
			}
		}
		require.Equal(t, min(w.replicas, len(open))-1, followers, "slot %d: %+v", s.ID, s)
	}
	for name := range w.forbidden {
		require.True(t, slot.Drained(w.table, name, w.live(), w.input().Forbidden, w.replicas), "%s is not drained: %+v", name, w.table)
		require.NoError(t, slot.CanDrain(w.table, name, w.live(), w.input().Forbidden))
	}

	// The same reports again move nothing.
	require.False(t, w.arrange())
}

// A forbidden node is drained although the cluster continues to lose nodes, as
// long as one is left.
func TestArrange_FinishesDrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.start("data-5")
		w.start("data-6")
		w.settle()
		w.forbidden["data-5"] = true
		for range rapid.IntRange(0, 6).Draw(t, "rounds before the loss") {
			for _, id := range w.live() {
				w.deliver(w.nodes[id.Name])
				w.work(w.nodes[id.Name], func(int) bool { return true })
				w.reported[id] = w.nodes[id.Name].reports()
			}
			w.arrange()
		}
		w.nodes[rapid.SampledFrom([]string{"data-1", "data-5", "data-6"}).Draw(t, "lost")].up = false
		w.calm()
	})
}
