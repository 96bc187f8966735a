package outside

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/join"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/testbed"
	"conclave/wire"
)

// askWait bounds one request. A node that does not answer in time counts as not
// seen.
const askWait = 300 * time.Millisecond

// commandWait bounds one request of an operator's command, which may wait for the
// database. If a meta does not answer in time, the next one is asked.
const commandWait = 5 * time.Second

// View queries a cluster's nodes at the addresses where this machine reaches
// them.
type View struct {
	// Nodes returns the addresses of all nodes, by name. It is called at each
	// Observe.
	Nodes func() map[string]string
	// HTTP should not keep connections: an old one may lead to a process that
	// has ended.
	HTTP *http.Client
	// Token returns what is sent with requests.
	Token func() string

	seen atomic.Pointer[string] // the leader at the last Observe, which is asked first
}

// last returns the leader at the last Observe.
func (v *View) last() string {
	if name := v.seen.Load(); name != nil {
		return *name
	}
	return ""
}

// admin returns an operator's client for these metas.
func (v *View) admin(metas ...string) *metaclient.Admin {
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: v.HTTP, TokenFor: func(string) string { return v.Token() }})
}

func isMeta(name string) bool { return strings.HasPrefix(name, string(conclave.RoleMeta)+"-") }

// leader returns the leader of the highest term that any meta names. Each meta
// is asked: one that is paused or cut off must not hide what the others know.
func (v *View) leader(ctx context.Context, nodes map[string]string) (found metaclient.LeaderInfo) {
	leaders := join.Map(reachable(nodes, ""), func(meta string) metaclient.LeaderInfo {
		l, err := v.admin(meta).Leader(ctx)
		if err != nil {
			return metaclient.LeaderInfo{}
		}
		return l
	})
	for _, l := range leaders {
		if l.Term > found.Term {
			found = l
		}
	}
	return found
}

// reachable returns the addresses of the metas, the leader's first.
func reachable(nodes map[string]string, leader string) []string {
	var metas []string
	for name, address := range nodes {
		if isMeta(name) && name != leader {
			metas = append(metas, address)
		}
	}
	slices.Sort(metas)
	if address := nodes[leader]; address != "" {
		metas = append([]string{address}, metas...)
	}
	return metas
}

// Observe queries everything at the same time. The caller adds the names of the
// nodes that run.
func (v *View) Observe(ctx context.Context) testbed.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var sight testbed.Snapshot
	var all sync.WaitGroup
	nodes := v.Nodes()
	all.Go(func() {
		l := v.leader(ctx, nodes)
		sight.Leader, sight.Term = l.Leader, l.Term
	})
	admin := v.admin(reachable(nodes, v.last())...)
	all.Go(func() {
		if s, err := admin.Slots(ctx); err == nil {
			sight.Table, sight.Frozen = Table(s), s.Protected
		}
	})
	all.Go(func() {
		list, err := admin.Blacklist(ctx)
		for _, b := range list {
			if err == nil {
				sight.Forbid = append(sight.Forbid, b.Name)
			}
		}
	})
	var mu sync.Mutex // guards sight.Ready and sight.Leads
	for name, address := range nodes {
		all.Go(func() {
			ready := Status(ctx, v.HTTP, "http://"+address+"/readyz", "") == http.StatusOK
			leads := isMeta(name) && Status(ctx, v.HTTP, "http://"+address+"/leaderz", "") == http.StatusOK
			mu.Lock()
			defer mu.Unlock()
			if ready {
				sight.Ready = append(sight.Ready, name)
			}
			if leads {
				sight.Leads++
			}
		})
	}
	all.Wait()
	slices.Sort(sight.Ready)
	v.seen.Store(&sight.Leader)
	return sight
}

// Partial returns how many slots the data nodes serve without a session that
// they could not reach. A node that does not answer in time counts as 0.
func (v *View) Partial(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var sum atomic.Int64
	var all sync.WaitGroup
	for name, address := range v.Nodes() {
		if strings.HasPrefix(name, string(conclave.RoleData)+"-") {
			all.Go(func() {
				if n, err := v.admin().PartialSlots(ctx, address); err == nil {
					sum.Add(int64(n))
				}
			})
		}
	}
	all.Wait()
	return int(sum.Load())
}

// Table converts the slot table of the HTTP API, in which nodes have only
// names.
func Table(s metaclient.SlotsInfo) slot.Table {
	t := slot.Table{Epoch: s.Epoch}
	for _, x := range s.Slots {
		row := slot.Slot{
			ID: x.ID, Phase: slot.Phase(x.State), Leader: conclave.NodeID{Name: x.Leader}, LeaderEpoch: x.LeaderEpoch,
			Successor: conclave.NodeID{Name: x.Successor}, Source: conclave.NodeID{Name: x.Source},
		}
		for _, f := range x.Followers {
			row.Followers = append(row.Followers, conclave.NodeID{Name: f})
		}
		t.Slots = append(t.Slots, row)
	}
	return t
}

// Operate carries out a command of an operator; done is false for any other
// act.
func (v *View) Operate(ctx context.Context, a testbed.Action) (done bool, err error) {
	admin, web := v.admin(reachable(v.Nodes(), v.last())...), *v.HTTP
	web.Timeout = commandWait
	admin.HTTP = &web
	return Command(ctx, admin, a, v.Nodes()[a.Node])
}

// AnnounceStop announces to the nodes at these addresses, by name, that the whole cluster
// stops within a time. A node that cannot be reached stops as if only it were stopping.
func (v *View) AnnounceStop(ctx context.Context, nodes map[string]string, within time.Duration, by string) {
	var members []string
	for name, address := range nodes {
		if role := testbed.RoleOf(name); role == "session" || role == "data" {
			members = append(members, address)
		}
	}
	v.admin(reachable(nodes, "")...).AnnounceStop(ctx, members, within, by)
}

// Command carries out a command of an operator, on the node at an address if it is one
// to a node; done is false for any other act.
func Command(ctx context.Context, admin *metaclient.Admin, a testbed.Action, address string) (done bool, err error) {
	var opts []metaclient.Option
	if a.Force {
		opts = append(opts, metaclient.Force())
	}
	switch a.Verb {
	case testbed.Resign:
		err = admin.Resign(ctx, opts...)
	case testbed.Quit:
		err = admin.Quit(ctx, a.Node, opts...)
	case testbed.Join:
		err = admin.Rejoin(ctx, a.Node)
	case testbed.Forbid:
		err = admin.Forbid(ctx, a.Node, "chaos", "chaos", opts...)
	case testbed.Allow:
		if err = admin.Allow(ctx, a.Node); wire.CodeOf(err) == wire.CodeNotFound {
			err = nil // it is not on the blacklist
		}
	case testbed.Freeze:
		_, err = admin.SetSwitch(ctx, wire.SwitchArrange, "off")
	case testbed.Unfreeze:
		_, err = admin.SetSwitch(ctx, wire.SwitchArrange, "on")
	case testbed.Switch:
		_, err = admin.SetSwitch(ctx, a.Node, a.Peer)
	case testbed.AnnounceStop:
		err = admin.AnnounceStopTo(ctx, address, "chaos")
	default:
		return false, nil
	}
	return true, err
}
