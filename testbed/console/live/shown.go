package live

import (
	"cmp"
	"slices"
	"time"

	"conclave/meta/metaclient"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/testbed/outside"
)

// Settings are those of the metas of a cluster; what is zero has their default.
type Settings struct {
	Replicas          int
	Profile, Takeover string
	Lease, NodeLease  time.Duration
}

// settings returns the settings with the metas' defaults.
func settings(c Settings) Settings {
	lease, takeover := 3*time.Second, "witness"
	if c.Profile == "sofa" {
		lease, takeover = 20*time.Second, "lease"
	}
	c.Replicas, c.Takeover = cmp.Or(c.Replicas, 2), cmp.Or(c.Takeover, takeover)
	c.Lease, c.NodeLease = cmp.Or(c.Lease, lease), cmp.Or(c.NodeLease, lease)
	return c
}

// size returns the size of the cluster.
func size(seen *sight, of Settings) (c testbed.Size) {
	for _, p := range seen.processes {
		c.Add(p.Role)
	}
	c.Slots, c.Replicas, c.Takeover, c.Lease = len(seen.slots.Slots), of.Replicas, of.Takeover, of.Lease
	return c
}

// snapshot converts a look to what the checkers know.
func snapshot(seen *sight) testbed.Snapshot {
	out := testbed.Snapshot{Leader: seen.leader.Leader, Term: seen.leader.Term, Frozen: seen.slots.Protected, Table: outside.Table(seen.slots)}
	for _, leads := range seen.believes {
		if leads {
			out.Leads++
		}
	}
	for _, b := range seen.listed {
		out.Forbid = append(out.Forbid, b.Name)
	}
	for _, p := range seen.processes {
		if p.PID != 0 && p.Role != "db" && p.Role != "client" {
			out.Up = append(out.Up, p.Name)
		}
	}
	slices.Sort(out.Up)
	return out
}

// status is what outcomes are measured by.
type status struct {
	term       uint64
	atRest     bool // it has a leader, every slot is served, none moves, and no member is suspect
	unreadable int  // slots
	missing    int
	gaps       map[uint64]int64 // leaderless milliseconds, by term
}

// statusOf summarizes a look.
func statusOf(seen *sight, now testbed.Snapshot, out console.State) status {
	st := status{term: seen.leader.Term, gaps: map[uint64]int64{}}
	for _, e := range seen.elections {
		st.gaps[e.Term] = e.LeaderlessMs
	}
	for _, x := range seen.slots.Slots {
		if x.State == "crash" || x.State == "switching" {
			st.unreadable++
		}
	}
	if out.Load != nil {
		st.missing = out.Load.Missing
	}
	sum := check.Summarize(now, nil)
	suspect := slices.ContainsFunc(seen.nodes, func(n metaclient.NodeInfo) bool { return n.State == metaclient.NodeSuspect })
	st.atRest = now.Leads == 1 && sum.Stable && sum.Unled == 0 && !seen.partial && !suspect
	return st
}

// nodes returns the nodes of a look.
func nodes(seen *sight, table map[string]console.Slot, lease time.Duration) map[string]console.Node {
	out := map[string]console.Node{}
	for _, p := range seen.processes {
		if p.Role == "client" {
			continue
		}
		n := console.Node{Role: p.Role, State: p.State, Why: p.Why, Believes: seen.believes[p.Name], Leads: p.Name == seen.leader.Leader && seen.believes[p.Name]}
		for _, m := range seen.nodes {
			if m.Name == p.Name {
				n.Meta = followed(p, m, seen)
				n.Member, n.Observer = string(m.State), m.Observer
				if p.Role == "data" {
					n.Entries = int(m.Load)
				}
			}
		}
		if n.Leads {
			n.Until, n.LeaseOf = seen.trust.UnixMilli(), lease.Milliseconds()
		}
		for _, c := range seen.clients[p.Name] {
			n.Clients, n.Entries = n.Clients+1, n.Entries+c.Entries
		}
		for _, b := range seen.listed {
			if b.Name == p.Name {
				n.Listed = cmp.Or(b.Reason, "by an operator")
			}
		}
		n.Count(p.Name, table)
		out[p.Name] = n
	}
	return out
}

// followed returns the meta that a node follows: the one that lists it as a node
// whose stream it holds. It is "" if that is not known by this look.
func followed(p testbed.Status, m metaclient.NodeInfo, seen *sight) string {
	if seen.partial || m.Leading || m.State == metaclient.NodeSuspect || p.State == "killed" || p.State == "exited" || p.Incarnation != "" && p.Incarnation != m.Incarnation {
		return ""
	}
	for _, l := range seen.nodes {
		if l.Leading {
			return l.Name
		}
	}
	return ""
}
