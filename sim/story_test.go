package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/chaos"
	"conclave/sim"
)

// scene is a cluster with publishers and subscribers on both sessions: what
// every story begins with.
type scene struct {
	*sim.Stage
	publishers []*sim.Client
	watches    []*sim.Watch // one per dataId and subscribing client
	values     map[string][]string
}

// begin starts the cluster, publishes under a few dataIds, and waits until
// every subscriber sees all. From then on no push may miss one.
func begin(t *testing.T, o chaos.Cluster) *scene {
	s := &scene{Stage: sim.Set(t, o), values: map[string][]string{}}
	s.publishers = []*sim.Client{s.Client("client-1"), s.Client("client-2")}
	subscribers := []*sim.Client{s.Client("client-3"), s.Client("client-4")}
	for i := range 8 {
		id := fmt.Sprintf("service-%d", i)
		for j, p := range s.publishers {
			value := fmt.Sprintf("10.0.%d.%d", i, j)
			s.Publish(p, id, value)
			s.values[id] = append(s.values[id], value)
		}
		for _, c := range subscribers {
			w := s.Subscribe(c, id)
			w.Sees(10*time.Second, s.values[id]...)
			w.Full(s.values[id]...)
			s.watches = append(s.watches, w)
		}
	}
	return s
}

// goesOn checks that publishing and pushing still work, within the limit.
func (s *scene) goesOn(what string, limit time.Duration) {
	id := "after " + what
	s.Publish(s.publishers[0], id, "yes")
	s.Subscribe(s.publishers[1], id).Sees(limit, "yes")
}

// Article 000: three nodes; the leader is killed, one follower wins with term + 1;
// the new leader is killed, and the last node leads with term + 2.
func TestKillTheLeaderTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 1})
		first := s.Leader()
		s.Kill(first.Name)
		second, took := s.NextLeader(first.Term, 5*time.Second)
		assert.Equal(t, first.Term+1, second.Term)
		assert.Less(t, took, 300*time.Millisecond, "the witness wakes a follower")
		s.goesOn("the first kill", time.Second)
		s.Kill(second.Name)
		third, _ := s.NextLeader(second.Term, 5*time.Second)
		assert.Equal(t, second.Term+1, third.Term)
		s.goesOn("the second kill", time.Second)
		s.Start(first.Name)
		s.Start(second.Name)
		s.goesOn("both are back", time.Second)
	})
}

// Article 000: a leader that stops hands over.
func TestStopTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 2})
		first := s.Leader()
		assert.NoError(t, s.Stop(first.Name))
		next, _ := s.NextLeader(first.Term, time.Second)
		assert.Equal(t, first.Term+1, next.Term)
		s.goesOn("the stop", time.Second)
	})
}

// A meta outage freezes the cluster and breaks nothing: publish and subscribe go
// on for longer than every lease and grace.
func TestAllMetasAreGoneForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 3})
		term := s.Leader().Term
		s.Kill("meta-1", "meta-2", "meta-3")
		for i := range 6 {
			time.Sleep(10 * time.Second)
			s.goesOn(fmt.Sprintf("%d s without metas", 10*(i+1)), time.Second)
		}
		for _, name := range []string{"meta-1", "meta-2", "meta-3"} {
			s.Start(name)
		}
		s.NextLeader(term, 10*time.Second)
		s.goesOn("the metas are back", time.Second)
	})
}

// Article 002: data nodes going down must be noticed fast and their slots moved;
// what the slots hold comes from the copies and from the sessions.
func TestKillADataNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 4})
		s.Stable(10 * time.Second)
		s.Kill("data-2")
		took := s.Await("all slots to be served without data-2", 5*time.Second, func() bool { return s.ServedWithout("data-2") })
		assert.Less(t, took, time.Second)
		s.goesOn("data-2 was killed", time.Second)
		s.Start("data-2")
		s.Stable(20 * time.Second)
		time.Sleep(30 * time.Second) // longer than every grace: nothing may shrink late
		s.goesOn("data-2 is back", time.Second)
	})
}

// Article 002: if all replicas of a slot are lost, only the sessions can replay
// it, and until they have, nothing may be read and nothing empty be pushed.
func TestKillAllDataNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 5})
		s.Kill("data-1", "data-2", "data-3")
		time.Sleep(20 * time.Second)
		for _, name := range []string{"data-1", "data-2", "data-3"} {
			s.Start(name)
		}
		s.goesOn("all data nodes were killed", 30*time.Second)
		for _, w := range s.watches {
			assert.NotEmpty(t, w.Last().Values)
		}
		time.Sleep(30 * time.Second)
		s.Stable(10 * time.Second)
	})
}

// Article 002, data's stop: slots leave while it still serves; nothing shrinks.
func TestDrainADataNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 6})
		s.Stable(10 * time.Second)
		assert.NoError(t, s.Stop("data-1"))
		assert.True(t, s.ServedWithout("data-1"), "it left only when its successors served")
		s.goesOn("data-1 was drained", time.Second)
		s.Start("data-1")
		s.Stable(20 * time.Second)
	})
}

// Article 002: a client whose session goes reconnects to another and replays; the
// subscribers of the other session never see a publisher missing.
func TestKillASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 7})
		s.Kill("session-1")
		time.Sleep(time.Minute) // longer than the session grace: by then all have replayed
		s.goesOn("session-1 was killed", time.Second)
		for _, w := range s.watches {
			assert.Len(t, w.Last().Values, 2)
		}
	})
}

// Article 002, session's stop: its clients are on other sessions before it goes.
func TestStopASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 8})
		assert.NoError(t, s.Stop("session-2"))
		time.Sleep(time.Minute)
		s.goesOn("session-2 was stopped", time.Second)
	})
}

// The database restarts: the leader's lock is gone, and its term goes on.
func TestRestartTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, chaos.Cluster{Seed: 9})
		s.Kill("db")
		time.Sleep(time.Second)
		s.Start("db")
		s.Await("a leader", 10*time.Second, func() bool { _, ok := s.Leads(); return ok })
		s.goesOn("the database was restarted", 10*time.Second)
	})
}
