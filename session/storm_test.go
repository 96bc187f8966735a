package session_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/blacklist"
	"conclave/client"
	"conclave/internal/long"
	"conclave/testbed/simulated/simnet"
)

// TestStorm kills, restarts, stops and drains sessions and data nodes, and cuts
// clients' connections, while clients publish, update and withdraw. At every
// subscriber, at all times:
//
//   - versions rise (I11);
//   - a dataId whose publishers all live never shows fewer of them (I7);
//   - once changes stop, the list is what is published (I6), within seconds.
//
// CONCLAVE_STORMS=n runs n seeds, CONCLAVE_STORM=seed that one.
func TestStorm(t *testing.T) {
	from, n := uint64(1), uint64(long.Rounds(1, 4))
	if s, err := strconv.ParseUint(os.Getenv("CONCLAVE_STORMS"), 10, 64); err == nil {
		n = s
	}
	if s, err := strconv.ParseUint(os.Getenv("CONCLAVE_STORM"), 10, 64); err == nil {
		from, n = s, 1
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

// registered is what one writer publishes under one dataId.
type registered struct {
	writer *client.Client
	dataID string
	stays  bool // never withdrawn, one value
	pub    *client.Publication
	value  string
	count  int
}

func storm(t *testing.T, seed uint64) {
	seeds.Store(seed * 1000)
	c := newCluster(t, simnet.New(1), 16, 3)
	defer c.end()
	names := func(role string) []string { return []string{role + "-1", role + "-2", role + "-3"} }
	for _, n := range names("data") {
		c.startData(n)
	}
	for _, n := range names("session") {
		c.startSession(n)
	}
	c.settle()

	// Four dataIds that stay, with three publishers each; four that come and go.
	var all []*registered
	readers := []*client.Client{c.client("reader-1"), c.client("reader-2")}
	seen := map[string][]*history{}
	for w := range 6 {
		x := c.client(fmt.Sprintf("writer-%d", w+1))
		for d := range 4 {
			stays := d%2 == 0
			o := &registered{writer: x, dataID: fmt.Sprintf("svc-%d", d+4*(w%2)), stays: stays, value: fmt.Sprintf("w%d", w+1)}
			o.pub = c.published(x, o.dataID, o.value)
			all = append(all, o)
			if seen[o.dataID] == nil {
				seen[o.dataID] = []*history{c.watch(readers[0], o.dataID), c.watch(readers[1], o.dataID)}
			}
		}
	}
	pick := func(n int) int { return c.random.IntN(n) }
	down := map[string]bool{}
	act := map[int]func(){
		0: func() { // a session is killed, and another process takes its name
			n := names("session")[pick(3)]
			if !down[n] && len(down) == 0 {
				kill(c, c.sessions[n])
				down[n] = true
			}
		},
		1: func() {
			n := names("data")[pick(3)]
			if !down[n] && len(down) < 2 {
				kill(c, c.datas[n])
				down[n] = true
			}
		},
		2: func() {
			for _, n := range slices.Sorted(maps.Keys(down)) {
				delete(down, n)
				if n[0] == 's' {
					c.startSession(n)
				} else {
					c.startData(n)
				}
			}
		},
		3: func() { // a graceful stop
			n := names("session")[pick(3)]
			if !down[n] && len(down) == 0 {
				ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
				defer cancel()
				_ = c.sessions[n].server.Shutdown(ctx) // meta may be slow just now
				<-c.sessions[n].done
				down[n] = true
			}
		},
		4: func() { // a drain by hand, and back
			n := names("data")[pick(3)]
			c.meta.forbid(blacklist.Entry{Name: n, Role: conclave.RoleData, Reason: "storm", By: "operator"})
			time.Sleep(time.Duration(pick(2000)) * time.Millisecond)
			c.meta.allow(n)
		},
		5: func() { c.unplug(fmt.Sprintf("writer-%d", pick(6)+1)) },
		6: func() { c.unplug(fmt.Sprintf("reader-%d", pick(2)+1)) },
	}
	change := func() {
		o := all[pick(len(all))]
		switch {
		case o.stays:
			return
		case o.pub == nil:
			o.pub = c.publish(o.writer, o.dataID, o.value)
		case pick(3) == 0:
			require.NoError(t, o.pub.Withdraw())
			o.pub = nil
		default:
			o.count++
			o.value = fmt.Sprintf("%s.%d", o.value[:2], o.count)
			require.NoError(t, o.pub.Update([]string{o.value}))
		}
	}
	for range 40 {
		act[pick(len(act))]()
		for range 5 {
			change()
			time.Sleep(time.Duration(pick(200)) * time.Millisecond)
		}
	}
	act[2]()
	quiet := time.Now()
	expected := map[string][]string{}
	for _, o := range all {
		if o.pub != nil {
			expected[o.dataID] = append(expected[o.dataID], o.value)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		for _, h := range seen[id] {
			c.eventually(fmt.Sprintf("%s shows %v and not %v", id, expected[id], h.last()), h.shows(expected[id]...))
		}
	}
	t.Logf("seed %d: quiet after %s", seed, time.Since(quiet))
	for id, both := range seen {
		for _, h := range both {
			last := int64(0)
			for _, d := range h.all() {
				if !assert.Greater(t, d.Version, last, "I11 at %s", id) {
					return
				}
				last = d.Version
			}
			if stays := (id[4]-'0')%2 == 0; stays {
				neverBelow(t, h, 3)
			}
		}
	}
}
