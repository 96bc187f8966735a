package meta_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/long"
	"conclave/slot"
)

// storms: go test ./meta -run Storm -storms 100
var storms = flag.Int("storms", long.Rounds(1, 4), "number of seeds for TestStorm")

// tables collects every slot table that any node has ever held.
type tables struct {
	mu   sync.Mutex // guards the rest
	seen map[conclave.Epoch]slot.Table
	torn []string // epochs of which two nodes held different tables
}

func (x *tables) add(node string, t slot.Table) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.seen[t.Epoch]; ok && !old.Equal(t) {
		x.torn = append(x.torn, fmt.Sprintf("%s at %s", t.Epoch, node))
	}
	x.seen[t.Epoch] = t
}

// sorted returns the tables in the order of their epochs.
func (x *tables) sorted() []slot.Table {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []slot.Table
	for _, t := range x.seen {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b slot.Table) int { return a.Epoch.Compare(b.Epoch) })
	return list
}

// A minute of kills, restarts, resignations, drains and database outages. At no
// moment do two nodes hold different tables under one epoch (I3); each slot's
// leader epochs only rise with the tables' (I5); every term has one owner (I1).
// After the storm there is a leader within a lease, and the slots are served
// and spread evenly within ten seconds (I10).
func TestStorm(t *testing.T) {
	for seed := range uint64(*storms) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			file := t.TempDir() + "/db.sql"
			synctest.Test(t, func(t *testing.T) { storm(t, seed, file) })
		})
	}
}

func storm(t *testing.T, seed uint64, file string) {
	c := newCluster(t, 3)
	c.net.Kill("db")
	c.serveDB(file)
	require.NoError(t, c.db.Migrate(t.Context(), lock))
	r := rand.New(rand.NewPCG(seed, 77))
	held := &tables{seen: map[conclave.Epoch]slot.Table{}}
	var watching sync.WaitGroup
	done := make(chan struct{})
	start := func(name string, role conclave.Role) {
		n := c.startNode(name, role)
		watching.Go(func() {
			for changed := n.view.Changed(); ; changed = n.view.Changed() {
				if table := n.view.Table(); !table.Epoch.IsZero() {
					held.add(name, table)
				}
				select {
				case <-changed:
				case <-done:
					return
				}
			}
		})
	}
	roles := map[string]conclave.Role{
		"data-1": conclave.RoleData, "data-2": conclave.RoleData, "data-3": conclave.RoleData, "data-4": conclave.RoleData,
		"session-1": conclave.RoleSession, "session-2": conclave.RoleSession,
	}
	for _, name := range c.metaNames() {
		c.startMeta(name)
	}
	for _, name := range sortedNames(roles) {
		start(name, roles[name])
	}
	c.stable(10 * time.Second)

	for range 40 {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		name := sortedNames(roles)[r.IntN(len(roles))]
		meta := c.metaNames()[r.IntN(3)]
		switch r.IntN(8) {
		case 0, 1: // kill or restart a meta
			if c.metas[meta] != nil {
				c.kill(meta)
			} else {
				c.startMeta(meta)
			}
		case 2, 3: // kill or restart a node
			if c.nodes[name] != nil {
				c.kill(name)
			} else {
				start(name, roles[name])
			}
		case 4:
			_ = c.admin.Resign(t.Context()) // refused if no node leads
		case 5:
			_ = c.admin.Forbid(t.Context(), name, "storm", "me") // refused if no node could take over
		case 6:
			_ = c.admin.Allow(t.Context(), name)
		case 7:
			c.net.Kill("db")
			time.Sleep(time.Duration(r.Int64N(int64(5 * time.Second))))
			c.serveDB(file)
		}
	}

	// Heal.
	for _, meta := range c.metaNames() {
		if c.metas[meta] == nil {
			c.startMeta(meta)
		}
	}
	for _, name := range sortedNames(roles) {
		if c.nodes[name] == nil {
			start(name, roles[name])
		}
	}
	took := c.eventually(10*time.Second, func() bool { _, err := c.admin.Leader(t.Context()); return err == nil })
	assert.LessOrEqual(t, took, 7*time.Second, "a lease, and one more if a late beat starts it again")
	for _, name := range sortedNames(roles) {
		_ = c.admin.Allow(t.Context(), name)
	}
	for _, n := range c.nodes {
		require.NoError(t, n.WaitRegistered(t.Context()))
	}
	c.stable(15 * time.Second)
	close(done)
	watching.Wait()

	assert.Empty(t, held.torn)
	list := held.sorted()
	require.NotEmpty(t, list)
	for i := 1; i < len(list); i++ {
		assert.NoError(t, slot.Monotone(list[i-1], list[i]))
	}
	history, err := c.admin.Elections(t.Context())
	require.NoError(t, err)
	terms := map[uint64]bool{}
	for _, e := range history {
		assert.False(t, terms[e.Term], "term %d has two owners", e.Term)
		terms[e.Term] = true
	}
	t.Log("tables:", len(list), "elections:", len(history))
}

func sortedNames(roles map[string]conclave.Role) []string {
	var names []string
	for name := range roles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
