package devdb

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever clients do, in whatever order: a lock has at most one owner, nobody owns what another one was granted first,
// nobody waits for a free lock, and who is granted one was the first in its line.
func TestLockTableKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newLockTable()
		clients := make([]*client, 4)
		lines := map[string][]*waiter{} // by lock: who waits, in the order in which they came
		for i := range clients {
			clients[i] = &client{id: uint32(i + 1)}
		}
		waiting := map[*client]*waiter{}
		settle := func() { // follows the hand-overs
			for name, line := range lines {
				for len(line) > 0 && isClosed(line[0].granted) {
					delete(waiting, line[0].who)
					line = line[1:]
				}
				for _, w := range line {
					if isClosed(w.granted) {
						t.Fatalf("%s went to %d, past %d", name, w.who.id, line[0].who.id)
					}
				}
				if len(line) > 0 && table.owner(name) == 0 {
					t.Fatalf("%s is free, and %d waits for it", name, line[0].who.id)
				}
				lines[name] = line
			}
		}
		leave := func(c *client) { // its wait is over without the lock
			w := waiting[c]
			if w == nil {
				return
			}
			if table.abandon(w) {
				t.Fatalf("client %d was granted %s unnoticed", c.id, w.name)
			}
			delete(waiting, c)
			for i, other := range lines[w.name] {
				if other == w {
					lines[w.name] = append(append([]*waiter{}, lines[w.name][:i]...), lines[w.name][i+1:]...)
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
					waiting[c], lines[name] = w, append(lines[name], w)
				}
			case "release":
				if waiting[c] != nil {
					continue
				}
				if mine, exists := table.release(c, name); mine != (before == c.id) || exists != (before != 0) {
					t.Fatalf("release of %s by %d says %v %v, its owner was %d", name, c.id, mine, exists, before)
				}
			case "give up":
				leave(c)
			case "die":
				leave(c)
				table.releaseAll(c)
				for n := range table.locks {
					if table.owner(n) == c.id {
						t.Fatalf("%d is dead and has %s", c.id, n)
					}
				}
			}
			settle()
		}
		for _, c := range clients { // no circle: when all end their waits and their holds, nothing is left
			leave(c)
			table.releaseAll(c)
			settle()
		}
		if len(table.locks) != 0 {
			t.Fatalf("%d locks are left", len(table.locks))
		}
	})
}
