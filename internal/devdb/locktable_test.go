package devdb

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// For any order of operations: a lock has at most one owner, no client waits
// for a free lock, and a lock is granted to the first in its queue.
func TestLockTable_KeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newLockTable()
		clients := make([]*client, 4)
		queues := map[string][]*waiter{} // by lock, in the order of arrival
		for i := range clients {
			clients[i] = &client{id: uint32(i + 1)}
		}
		waiting := map[*client]*waiter{}
		settle := func() { // applies the grants to waiting and queues
			for name, queue := range queues {
				for len(queue) > 0 && isClosed(queue[0].granted) {
					delete(waiting, queue[0].client)
					queue = queue[1:]
				}
				for _, w := range queue {
					if isClosed(w.granted) {
						t.Fatalf("%s was granted to %d before %d", name, w.client.id, queue[0].client.id)
					}
				}
				if len(queue) > 0 && table.owner(name) == 0 {
					t.Fatalf("%s is free and %d waits for it", name, queue[0].client.id)
				}
				queues[name] = queue
			}
		}
		leave := func(c *client) { // ends the client's wait without the lock
			w := waiting[c]
			if w == nil {
				return
			}
			if table.abandon(w) {
				t.Fatalf("client %d was granted %s before its turn", c.id, w.name)
			}
			delete(waiting, c)
			for i, other := range queues[w.name] {
				if other == w {
					queues[w.name] = append(append([]*waiter{}, queues[w.name][:i]...), queues[w.name][i+1:]...)
					break
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := clients[rapid.IntRange(0, 3).Draw(t, "client")]
			name := fmt.Sprint("lock-", rapid.IntRange(0, 2).Draw(t, "lock"))
			before := table.owner(name)
			switch rapid.SampledFrom([]string{"get", "release", "give up", "die"}).Draw(t, "act") {
			case "get":
				if waiting[c] != nil {
					continue // one statement at a time
				}
				w, err := table.enqueue(c, name)
				if err == nil && before != 0 && before != c.id {
					waiting[c], queues[name] = w, append(queues[name], w)
				}
			case "release":
				if waiting[c] != nil {
					continue
				}
				if mine, exists := table.release(c, name); mine != (before == c.id) || exists != (before != 0) {
					t.Fatalf("release of %s by %d returned %v %v; its owner was %d", name, c.id, mine, exists, before)
				}
			case "give up":
				leave(c)
			case "die":
				leave(c)
				table.releaseAll(c)
				for n := range table.locks {
					if table.owner(n) == c.id {
						t.Fatalf("%d has died and still has %s", c.id, n)
					}
				}
			}
			settle()
		}
		for _, c := range clients { // when all clients have left, no lock may remain
			leave(c)
			table.releaseAll(c)
			settle()
		}
		if len(table.locks) != 0 {
			t.Fatalf("%d locks are left", len(table.locks))
		}
	})
}
