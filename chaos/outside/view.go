package outside

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/chaos"
	"conclave/meta/metaclient"
	"conclave/slot"
)

// askWait bounds one question; what does not answer within it is not seen.
const askWait = 300 * time.Millisecond

// View asks a cluster's nodes at the addresses where this machine reaches them.
type View struct {
	// Nodes are the addresses of all nodes, by name; asked at each look.
	Nodes func() map[string]string
	// HTTP should not keep connections: an old one may lead to a process that is
	// gone.
	HTTP *http.Client
	// Token is shown with changes.
	Token string
}

// Admin is the operator's client.
func (v *View) Admin() *metaclient.Admin {
	var metas []string
	for name, address := range v.Nodes() {
		if strings.HasPrefix(name, string(conclave.RoleMeta)+"-") {
			metas = append(metas, address)
		}
	}
	slices.Sort(metas)
	return metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: v.HTTP, Token: v.Token})
}

// Look asks everything at once. The names of those that run are the driver's to
// add.
func (v *View) Look(ctx context.Context) chaos.Sight {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var sight chaos.Sight
	var all sync.WaitGroup
	admin := v.Admin()
	all.Go(func() {
		if l, err := admin.Leader(ctx); err == nil {
			sight.Leader, sight.Term = l.Leader, l.Term
		}
	})
	all.Go(func() {
		if s, err := admin.Slots(ctx); err == nil {
			sight.Table, sight.Frozen = table(s), s.Protected
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
	var mu sync.Mutex // guards what the questions to single nodes find
	for name, address := range v.Nodes() {
		all.Go(func() {
			ready := v.ok(ctx, address, "/readyz")
			leads := strings.HasPrefix(name, "meta-") && v.ok(ctx, address, "/leaderz")
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
	return sight
}

// ok says that the node answers 200 there.
func (v *View) ok(ctx context.Context, address, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return false
	}
	res, err := v.HTTP.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// table is the table as operators are shown it: nodes have names only.
func table(s metaclient.SlotsInfo) slot.Table {
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

// Operate does the acts of an operator; done is false for an act that is none.
func (v *View) Operate(ctx context.Context, a chaos.Act) (done bool, err error) {
	admin := v.Admin()
	switch a.Verb {
	case chaos.Resign:
		err = admin.Resign(ctx)
	case chaos.Quit:
		err = admin.Quit(ctx, a.Node)
	case chaos.Join:
		err = admin.Rejoin(ctx, a.Node)
	case chaos.Forbid:
		err = admin.Forbid(ctx, a.Node, "chaos", "chaos")
	case chaos.Allow:
		err = admin.Allow(ctx, a.Node)
	case chaos.Freeze:
		_, err = admin.SetSwitch(ctx, "arrange", "off")
	case chaos.Unfreeze:
		_, err = admin.SetSwitch(ctx, "arrange", "on")
	default:
		return false, nil
	}
	return true, err
}
