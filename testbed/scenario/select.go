package scenario

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"conclave/slot"
	"conclave/testbed"
	"conclave/testbed/check"
)

var roles = map[string]string{"meta": "meta", "session": "session", "data": "data", "client": "client"}

// selector reads a selector.
func (p *parser) selector() (testbed.Selector, error) {
	w := p.next()
	switch w {
	case "leader", "follower", "it", "everyone", "metas", "sessions", "datas", "clients", testbed.Database:
		return testbed.Selector(w), nil
	case "a":
		if role := p.next(); roles[role] != "" {
			return testbed.Selector("a " + role), nil
		}
		return "", fmt.Errorf("a ...: want meta, session, data or client")
	case "the":
		switch what := p.next(); what {
		case "dead", "rest":
			return testbed.Selector("the " + what), nil
		default:
			return "", fmt.Errorf("the %q: want dead or rest", what)
		}
	case "half":
		if err := p.want("of"); err != nil {
			return "", err
		}
		if all := p.next(); all == "metas" || all == "sessions" || all == "datas" {
			return testbed.Selector("half of " + all), nil
		}
		return "", fmt.Errorf("half of ...: want metas, sessions or datas")
	case "session":
		if err := p.want("of"); err != nil {
			return "", err
		}
		client, err := p.selector()
		if role, _, _ := strings.Cut(string(client), "-"); err == nil && role != "client" {
			err = fmt.Errorf("session of %s: want a client", client)
		}
		return "session of " + client, err
	case "owner":
		if err := p.want("of"); err != nil {
			return "", err
		}
		n, err := p.number()
		return testbed.Selector(fmt.Sprintf("owner of %d", n)), err
	}
	role, n, _ := strings.Cut(w, "-")
	if i, err := strconv.Atoi(n); roles[role] == "" || err != nil || i < 1 {
		return "", fmt.Errorf("unknown selector %q", w)
	}
	return testbed.Selector(w), nil
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
