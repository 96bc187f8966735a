package scenario

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

// selectors are all selectors.
var selectors = regexp.MustCompile(`^(leader|follower|it|everyone|metas|sessions|datas|clients|` + testbed.Database + `|a (meta|session|data|client)|the (dead|rest)|` +
	`half of (metas|sessions|datas)|session of client-[1-9]\d*|owner of \d{1,9}|(meta|session|data|client)-[1-9]\d*)( |$)`)

// selector reads a selector.
func (p *parser) selector() (testbed.Selector, error) {
	found := strings.TrimSpace(selectors.FindString(strings.Join(p.words, " ")))
	if found == "" {
		n := min(1, len(p.words))
		if n > 0 && slices.Contains([]string{"a", "the", "half", "session", "owner"}, p.words[0]) {
			n = min(3, len(p.words))
		}
		return "", fmt.Errorf("unknown selector %q (conclave scenario grammar lists all)", strings.Join(p.words[:n], " "))
	}
	p.words = p.words[len(strings.Fields(found)):]
	return testbed.Selector(found), nil
}

// targets is the set of nodes and clients that selectors choose from.
type targets struct {
	cluster testbed.Size
	clients int
	dead    map[string]bool // killed or stopped
	back    map[string]bool // started again, and not forbidden since
	rand    *rand.Rand
	it      []string // what a selector chose last

	sessionsOf func(client string) []string // those that know the client
}

// summarize summarizes an observation. A data node that is down, or on the
// blacklist, need not lead its share of the slots. A node that was stopped and
// started again is on the blacklist by its own stop until it has joined; it must
// lead its share all the same.
func (c *targets) summarize(now testbed.Snapshot) check.Observation {
	return check.Summarize(now, func(name string) bool {
		return c.dead[name] || slices.Contains(now.Forbid, name) && !c.back[name]
	})
}

// all returns the names of a role, in order, dead or alive.
func (c *targets) all(role string) []string {
	if role == "client" {
		return testbed.Numbered(role, c.clients)
	}
	return c.cluster.NodesOf(role)
}

// choose resolves a selector and remembers the result as "it". The result may
// be empty (no node leads at the moment).
func (c *targets) choose(s testbed.Selector, now testbed.Snapshot) []string {
	out := c.resolve(s, now)
	if s != "it" && len(out) > 0 && s != "" {
		c.it = out
	}
	return out
}

func (c *targets) resolve(s testbed.Selector, now testbed.Snapshot) []string {
	alive := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return c.dead[n] })
	}
	one := func(names []string) []string {
		if len(names) == 0 {
			return nil
		}
		return []string{names[c.rand.IntN(len(names))]}
	}
	word, rest, _ := strings.Cut(string(s), " ")
	switch word {
	case "":
		return nil
	case "leader":
		if now.Leader == "" {
			return nil
		}
		return []string{now.Leader}
	case "follower":
		return one(slices.DeleteFunc(alive(c.all("meta")), func(n string) bool { return n == now.Leader }))
	case "it":
		return c.it
	case "everyone":
		return c.cluster.Nodes()
	case "metas", "sessions", "datas", "clients":
		return c.all(strings.TrimSuffix(word, "s"))
	case "a":
		return one(alive(c.all(rest)))
	case "the":
		if rest == "dead" {
			return slices.Sorted(maps.Keys(c.dead))
		}
		return slices.DeleteFunc(c.cluster.Nodes(), func(n string) bool { return slices.Contains(c.it, n) })
	case "half":
		names := c.all(strings.TrimSuffix(strings.TrimPrefix(rest, "of "), "s"))
		c.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:(len(names)+1)/2]
		slices.Sort(names)
		return names
	case "session":
		known := c.sessionsOf(strings.TrimPrefix(rest, "of "))
		return known[:min(1, len(known))]
	case "owner":
		id, err := strconv.Atoi(strings.TrimPrefix(rest, "of "))
		if err != nil || id >= len(now.Table.Slots) {
			return nil
		}
		return []string{now.Table.Slots[id].Leader.Name}
	}
	return []string{string(s)}
}

// led reports whether the named node leads a slot in the table.
func led(t slot.Table, name string) bool {
	return slices.ContainsFunc(t.Slots, func(s slot.Slot) bool { return s.Leader.Name == name })
}
