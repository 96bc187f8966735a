package simulated_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
	"conclave/testbed/simulated"
)

// testCluster is a cluster with publishers and subscribers.
type testCluster struct {
	*simulated.Stage
	publishers []*simulated.Client
	watches    []*simulated.Watch // one per dataId and subscribing client
	values     map[string][]string
}

// startCluster starts a cluster, publishes under a few dataIds, and waits until
// every subscriber has received all values. From then on no push may lack one.
func startCluster(t *testing.T, o testbed.Size) *testCluster {
	s := &testCluster{Stage: simulated.Set(t, o), values: map[string][]string{}}
	s.publishers = []*simulated.Client{s.Client("client-1"), s.Client("client-2")}
	subscribers := []*simulated.Client{s.Client("client-3"), s.Client("client-4")}
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

// checkService checks that a new publication is pushed within the limit.
func (s *testCluster) checkService(what string, limit time.Duration) {
	id := "after " + what
	s.Publish(s.publishers[0], id, "yes")
	s.Subscribe(s.publishers[1], id).Sees(limit, "yes")
}

// Article 000: three nodes; the leader is killed, one follower wins with term +
// 1; the new leader is killed, and the last node leads with term + 2.
func TestKillLeader_Twice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 1})
		first := s.Leader()
		s.Kill(first.Name)
		second, took := s.NextLeader(first.Term, 5*time.Second)
		assert.Equal(t, first.Term+1, second.Term)
		assert.Less(t, took, 300*time.Millisecond, "a follower takes over by the witness")
		s.checkService("the first kill", time.Second)
		s.Kill(second.Name)
		third, _ := s.NextLeader(second.Term, 5*time.Second)
		assert.Equal(t, second.Term+1, third.Term)
		s.checkService("the second kill", time.Second)
		s.Start(first.Name)
		s.Start(second.Name)
		s.checkService("both are back", time.Second)
	})
}

// Article 000: a leader that is stopped hands over.
func TestStopLeader_HandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 2})
		first := s.Leader()
		assert.NoError(t, s.Stop(first.Name))
		next, _ := s.NextLeader(first.Term, time.Second)
		assert.Equal(t, first.Term+1, next.Term)
		s.checkService("the stop", time.Second)
	})
}

// Without metas the slot table cannot change, but clients can publish and
// subscribe for longer than every lease and grace.
func TestKillAllMetas_ServiceContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 3})
		term := s.Leader().Term
		s.Kill("meta-1", "meta-2", "meta-3")
		for i := range 6 {
			time.Sleep(10 * time.Second)
			s.checkService(fmt.Sprintf("%d s without metas", 10*(i+1)), time.Second)
		}
		for _, name := range []string{"meta-1", "meta-2", "meta-3"} {
			s.Start(name)
		}
		s.NextLeader(term, 10*time.Second)
		s.checkService("the metas are back", time.Second)
	})
}

// Article 002: the loss of a data node must be detected fast and its slots
// moved. Their data comes from the copies and from the sessions.
func TestKillDataNode_MovesItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 4})
		s.Stable(10 * time.Second)
		s.Kill("data-2")
		took := s.Await("all slots to be served without data-2", 5*time.Second, func() bool { return s.ServedWithout("data-2") })
		assert.Less(t, took, time.Second)
		s.checkService("data-2 was killed", time.Second)
		s.Start("data-2")
		s.Stable(20 * time.Second)
		time.Sleep(30 * time.Second) // longer than every grace
		s.checkService("data-2 is back", time.Second)
	})
}

// Article 002: if all replicas of a slot are lost, only the sessions have its
// data. Until they have sent it the slot may not be read, and no empty list may
// be pushed.
func TestKillAllDataNodes_PushesNoEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 5})
		s.Kill("data-1", "data-2", "data-3")
		time.Sleep(20 * time.Second)
		for _, name := range []string{"data-1", "data-2", "data-3"} {
			s.Start(name)
		}
		s.checkService("all data nodes were killed", 30*time.Second)
		for _, w := range s.watches {
			assert.NotEmpty(t, w.Last().Values)
		}
		time.Sleep(30 * time.Second)
		s.Stable(10 * time.Second)
	})
}

// Article 002: a data node that is stopped serves until its slots have moved.
func TestStopDataNode_MovesItsSlotsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 6})
		s.Stable(10 * time.Second)
		assert.NoError(t, s.Stop("data-1"))
		assert.True(t, s.ServedWithout("data-1"), "the node stopped only when its successors served")
		s.checkService("data-1 was drained", time.Second)
		s.Start("data-1")
		s.Stable(20 * time.Second)
	})
}

// Article 002: a client whose session has crashed reconnects to another one and
// replays; no subscriber of the other session receives a list without it.
func TestKillSession_ClientsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 7})
		s.Kill("session-1")
		time.Sleep(time.Minute) // longer than the session grace
		s.checkService("session-1 was killed", time.Second)
		for _, w := range s.watches {
			assert.Len(t, w.Last().Values, 2)
		}
	})
}

// Article 002: the clients of a session that is stopped move to other sessions
// first.
func TestStopSession_MovesItsClientsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 8})
		assert.NoError(t, s.Stop("session-2"))
		time.Sleep(time.Minute)
		s.checkService("session-2 was stopped", time.Second)
	})
}

// The leader's named lock is lost with the database's process, and a leader is
// there again after the restart.
func TestRestartDatabase_LeaderIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startCluster(t, testbed.Size{Seed: 9})
		s.Kill("db")
		time.Sleep(time.Second)
		s.Start("db")
		s.Await("a leader", 10*time.Second, func() bool { _, ok := s.Leads(); return ok })
		s.checkService("the database was restarted", 10*time.Second)
	})
}
