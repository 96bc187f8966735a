package termcas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
)

// Two of three members leave their group in order, so that the primary goes on without a
// pause, and with it the connection of the leader, which was made when all three were
// members. The two may be made a group of their own, with a leader of its own: the first
// must end.
func TestGroup_LeaderEndsWhenItsGroupIsAMinority(t *testing.T) {
	r := mysqltest.NewReplicas(t, mysqltest.GroupReplication)
	b := onReplicas(t, r, termcas.Witness)
	c := electortest.NewCluster(t, b.World, 3)
	defer c.Stop()
	_, term := c.Leader()
	for _, m := range r.Secondaries(t) {
		m.Exec(t, "STOP GROUP_REPLICATION")
	}
	at := time.Now()
	c.Until("no node to lead with a minority", func() bool { return len(c.PerceivedLeaders()) == 0 })
	assert.Less(t, time.Since(at), 2*b.Lease)
	r.Settle(t)
	c.LeaderAfter(term.Number - 1) // the same term may continue
	c.Until("a leader", func() bool { return len(c.PerceivedLeaders()) == 1 })
	b.sameEverywhere(t, r, c)
}
