package data_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
)

// load is what clients of two sessions do while nodes stop and start: writers
// publish new versions continuously, readers read. What a session reads of a
// slot is never older than what it has read before (I13), and never empty while
// the publisher lives (I7).
type load struct {
	t       *testing.T
	cancel  context.CancelFunc
	all     sync.WaitGroup
	data    []string
	mu      sync.Mutex // guards the rest
	stored  int
	reads   int
	refused int
	newest  map[string]int // by data: the newest version stored
	max     time.Duration  // the longest time during which one datum could not be read
}

const loadSlots = 4

func startLoad(t *testing.T, c *cluster, sessions ...*session) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, cancel: cancel, newest: map[string]int{}}
	t.Cleanup(func() { cancel(); l.all.Wait() })
	for i := range loadSlots {
		d := dataIDIn(i, loadSlots)
		l.data = append(l.data, d)
		w := sessions[i%len(sessions)]
		w.store(pub(d, fmt.Sprint("r", i), 1, "1"))
		l.all.Go(func() {
			for v := int64(2); ctx.Err() == nil; v++ {
				w.store(pub(d, fmt.Sprint("r", i), v, fmt.Sprint(v)))
				l.mu.Lock()
				l.stored++
				l.newest[d] = int(v)
				l.mu.Unlock()
				select {
				case <-time.After(3 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
		for _, r := range sessions {
			l.all.Go(func() { l.read(ctx, r, d) })
		}
	}
	return l
}

func (l *load) read(ctx context.Context, s *session, d string) {
	seen, at := 0, time.Now()
	var version int64
	for ctx.Err() == nil {
		id := slot.Of(d, loadSlots)
		f, _, err := s.fetch(s.learn(id), d)
		l.mu.Lock()
		if err == nil && f != nil {
			values := f.GetDatum().GetValues()
			if assert.Len(l.t, values, 1, "a list shrank although its publisher is alive") {
				n := 0
				fmt.Sscan(values[0], &n)
				assert.GreaterOrEqual(l.t, n, seen, "%s has an older value than %s has read before", d, s.id.Name)
				seen = max(seen, n)
			}
			assert.GreaterOrEqual(l.t, f.GetDatum().GetVersion(), version, "versions rise per reader")
			version = f.GetDatum().GetVersion()
			l.reads++
			l.max = max(l.max, time.Since(at))
			at = time.Now()
		} else {
			l.refused++
		}
		l.mu.Unlock()
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// stop ends the load and checks that the last stored values are read.
func (l *load) stop(s *session) {
	l.cancel()
	l.all.Wait()
	for _, d := range l.data {
		v, ok := s.read(d)
		require.True(l.t, ok, "%s is not readable", d)
		require.Len(l.t, v, 1)
		n := 0
		fmt.Sscan(v[0], &n)
		assert.GreaterOrEqual(l.t, n, l.newest[d], "a stored write was lost")
	}
	l.t.Logf("%d writes, %d reads, %d not answered, longest gap of one datum %s", l.stored, l.reads, l.refused, l.max)
}

// stormCluster makes three data nodes and two sessions, with the real arranger.
func stormCluster(t *testing.T, c *cluster) (nodes []*node, s1, s2 *session) {
	c.auto = true
	s1, s2 = c.session("session-1", true), c.session("session-2", true)
	for i := range 3 {
		nodes = append(nodes, c.data(fmt.Sprint("data-", i+1)))
	}
	c.make(loadSlots)
	eventually(t, 5*time.Second, "stable", func() bool { return c.settled() })
	return nodes, s1, s2
}

// settled reports whether every slot is stable and has its followers.
func (m *fakeMeta) settled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.state.Table.Slots {
		if s.Phase != slot.Stable || len(s.Followers) != m.state.Replicas-1 {
			return false
		}
		for _, f := range s.Followers {
			ok := false
			for _, r := range m.reports[f] {
				ok = ok || r.Slot == s.ID && r.State == slot.CaughtUp && r.Epoch == s.LeaderEpoch
			}
			if !ok {
				return false
			}
		}
	}
	return true
}

// A drain is not noticed: no read fails for longer than a hand-over takes, no
// list shrinks, and nothing stored is lost.
func TestDrain_UnderWritesLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.latency = 500 * time.Microsecond
		nodes, s1, s2 := stormCluster(t, c)
		l := startLoad(t, c, s1, s2)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.NoError(t, nodes[0].Shutdown(ctx))
		err := <-nodes[0].err
		nodes[0].err <- err
		require.NoError(t, err, "a graceful stop is no error")
		t.Logf("drained in %s", time.Since(start))
		assert.Empty(t, c.table().HeldBy(nodes[0].id))
		assert.Contains(t, events(nodes[0]), "slot.finished")
		_, listed := c.members().Find("data-1")
		assert.False(t, listed, "it has left the list")
		time.Sleep(100 * time.Millisecond)
		l.stop(s1)
		assert.LessOrEqual(t, l.max, 50*time.Millisecond)
	})
}

// Whichever node dies in whichever phase of a hand-over, the slot is served
// again, nothing is lost, and no read goes back. Messages are delayed,
// differently on each connection, so the phases last.
func TestHandOver_CrashInEachPhase(t *testing.T) {
	for _, phase := range []slot.Phase{slot.Preparing, slot.Switching, slot.Stable} {
		for _, victim := range []string{"source", "successor", "meta", "session"} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprint(victim, " in ", phase, " ", seed), func(t *testing.T) {
					inBubble(t, func(t *testing.T, c *cluster) {
						c.seed, c.latency = 1000*seed, 2*time.Millisecond
						playCrash(t, c, victim, phase, time.Duration(seed)*time.Millisecond)
					})
				})
			}
		}
	}
}

func playCrash(t *testing.T, c *cluster, victim string, phase slot.Phase, later time.Duration) {
	nodes, s1, s2 := stormCluster(t, c)
	l := startLoad(t, c, s1, s2)
	third := c.session("session-3", true)
	for i := range 20 {
		third.store(pub(otherIDIn(0, loadSlots), fmt.Sprint("third", i), 1, "3"))
	}
	time.Sleep(50 * time.Millisecond)

	row := c.table().Slots[0]
	forbidden := []string{row.Leader.Name}
	if phase == slot.Preparing { // it lasts when the successor has no copy yet
		forbidden = append(forbidden, row.Followers[0].Name)
	}
	c.set(func(s *wire.State, e conclave.Epoch) {
		s.Blacklist.Epoch = e
		for _, name := range forbidden {
			s.Blacklist.Entries = append(s.Blacklist.Entries, forbid(name))
		}
	})
	reached := func(x slot.Slot) bool {
		return x.Phase == phase && (phase != slot.Stable || x.Leader != row.Leader)
	}
	for end := time.After(2 * time.Second); ; { // at each change: a phase may be short
		c.mu.Lock()
		x, changed := c.state.Table.Slots[0], c.changed
		c.mu.Unlock()
		if reached(x) {
			break
		}
		select {
		case <-changed:
		case <-end:
			require.FailNow(t, "the slot never reached the phase "+string(phase))
		}
	}
	time.Sleep(later)
	now := c.table().Slots[0]
	switch source, successor := find(nodes, row.Leader), find(nodes, now.Leader); victim {
	case "source":
		source.kill()
		c.evict(source.id.Name)
	case "successor":
		if phase == slot.Preparing {
			successor = find(nodes, now.Successor)
		}
		if successor == nil {
			return // it serves already: covered by another phase
		}
		successor.kill()
		c.evict(successor.id.Name)
		c.set(func(s *wire.State, e conclave.Epoch) { s.Blacklist = wire.Blacklist{Epoch: e} }) // otherwise no node may lead
	case "meta":
		c.replaceMeta()
	case "session":
		third.kill()
		c.evict("session-3")
	}
	eventually(t, 10*time.Second, "served", func() bool {
		led := c.table().Slots[0].Leader
		return c.table().StableAll() && c.members().Has(led)
	})
	time.Sleep(50 * time.Millisecond)
	l.stop(s2)
	v, ok := s1.read(otherIDIn(0, loadSlots))
	assert.True(t, ok)
	assert.Len(t, v, 20)
}

func find(nodes []*node, id conclave.NodeID) *node {
	for _, n := range nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// Nodes die and return, one after the other, under load.
func TestNodes_ComeAndGoUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.latency = time.Millisecond
		nodes, s1, s2 := stormCluster(t, c)
		l := startLoad(t, c, s1, s2)
		for round := range 6 {
			i := round % 3
			nodes[i].kill()
			if round%2 == 0 {
				c.evict(nodes[i].id.Name)
				eventually(t, 5*time.Second, "served again", func() bool { return c.table().StableAll() })
			}
			nodes[i] = c.data(nodes[i].id.Name)
			eventually(t, 5*time.Second, "settled", c.settled)
			time.Sleep(30 * time.Millisecond)
		}
		l.stop(s1)
		assert.LessOrEqual(t, l.max, time.Second)
	})
}
