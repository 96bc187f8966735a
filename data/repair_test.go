package data

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/data/store"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// A slot gives the comparisons that fit into what is left of a round, at least
// one, and none with a session that has others to answer. The rest stays due.
func TestReplica_ComparisonsFitIntoARound(t *testing.T) {
	session := func(name string) conclave.NodeID { return conclave.NodeID{Name: name, Incarnation: "i"} }
	one, two, three := session("session-1"), session("session-2"), session("session-3")
	r := &replica{state: slot.Serving, store: store.New(time.Minute)}
	for _, owner := range []conclave.NodeID{one, two, three} {
		for n := range 100 {
			p := &wirev1.Publisher{Id: fmt.Sprint(owner.Name, n), Version: 1, DataInfoId: "a#@#b#@#c"}
			r.store.Write(store.CopyOf(owner, p), time.Now())
		}
		r.repairWith(owner)
	}
	take := func(room int, behind ...conclave.NodeID) ([]conclave.NodeID, int) {
		not := map[conclave.NodeID]bool{}
		for _, n := range behind {
			not[n] = true
		}
		due, _, cost := r.takeDue(not, room)
		return due, cost
	}
	due, cost := take(150, two)
	assert.Equal(t, []conclave.NodeID{one, three}, due, "there was room for half of the second one")
	assert.Equal(t, 200, cost)
	assert.Equal(t, map[conclave.NodeID]int{two: 0}, r.dirty)
	r.repairWith(one)
	due, cost = take(1)
	assert.Equal(t, []conclave.NodeID{one}, due)
	assert.Equal(t, 100, cost)
	due, _ = take(1000)
	assert.Equal(t, []conclave.NodeID{two}, due)
	due, cost = take(1000)
	assert.Empty(t, due)
	assert.Zero(t, cost)
}

// While a session keeps writing, a slot is compared with it in the first round and
// then in every sixth. One that was served without the session is compared in
// each.
func TestReplica_ComparisonWaitsWhileTheSessionWrites(t *testing.T) {
	one := conclave.NodeID{Name: "session-1", Incarnation: "i"}
	r := &replica{state: slot.Serving, store: store.New(time.Minute)}
	write := func() {
		r.repairWith(one)
		r.wrote(one)
	}
	compared := func() bool {
		r.beginRound()
		due, _, _ := r.takeDue(nil, 1000)
		return len(due) > 0
	}
	for range 3 {
		write()
		assert.True(t, compared(), "the first round")
		for range writingRounds {
			write()
			assert.False(t, compared(), "it keeps writing")
		}
	}
	assert.True(t, compared(), "it has written nothing since the last round")
	assert.False(t, compared())

	write()
	assert.True(t, compared(), "the first round again")
	write()
	r.partial = map[conclave.NodeID]bool{one: true}
	assert.True(t, compared(), "a mark waits for the comparison")
}

// A comparison for which a round had no room is not postponed for six rounds more:
// each pair of a slot and a session that writes without a pause is compared in
// turn.
func TestRepair_WritingSessionsAreComparedInTurn(t *testing.T) {
	sessions := []conclave.NodeID{{Name: "session-1", Incarnation: "i"}, {Name: "session-2", Incarnation: "i"}}
	var all []*replica
	for range 4 {
		r := &replica{state: slot.Serving, store: store.New(time.Minute)}
		for _, owner := range sessions {
			for n := range 10 {
				p := &wirev1.Publisher{Id: fmt.Sprint(owner.Name, n), Version: 1, DataInfoId: "a#@#b#@#c"}
				r.store.Write(store.CopyOf(owner, p), time.Now())
			}
		}
		all = append(all, r)
	}
	all[0].partial = map[conclave.NodeID]bool{sessions[0]: true} // never postponed
	last := map[*replica]map[conclave.NodeID]int{}
	first := 0
	for round := 1; round <= 100; round++ {
		for _, r := range all {
			for _, session := range sessions {
				r.repairWith(session)
				r.wrote(session)
			}
			r.beginRound()
		}
		// Room for one pair in each round; there are eight.
		first = inTurn(all, first, nil, 10, func(r *replica, _ conclave.Epoch, due []conclave.NodeID) {
			for _, session := range due {
				if last[r] == nil {
					last[r] = map[conclave.NodeID]int{}
				}
				last[r][session] = round
			}
		})
		for n, r := range all {
			for _, session := range sessions {
				assert.LessOrEqual(t, round-last[r][session], writingRounds+1+8, "slot %d and %s", n, session.Name)
			}
		}
	}
}
