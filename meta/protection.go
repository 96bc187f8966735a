package meta

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	conclavesql "conclave/sql"
	"conclave/wire"
)

// protection keeps every slot with the nodes of its row when too many data nodes
// are lost at once. It is then more likely that the leader cannot reach them than
// that they are all dead, and moving every slot to the remaining nodes would
// overload them (Eureka's self-preservation; the original only has a fixed floor).
// Only a slot leader that has restarted is replaced, see slot.Arrange.
//
// It counts data nodes only. The loss of a session moves no slot, and its
// publishers stay for the session grace anyway. If sessions counted, a data
// node and a session killed within three seconds would leave a third of the
// slots unserved.
type protection struct {
	of        []string  // the data nodes that were known when it began; stored with it
	recovered time.Time // since when enough are back; zero: they are not
}

// trigger returns how many of n data nodes must be lost within one lease.
func trigger(n int) int { return max(2, (n+2)/3) }

// examineTime is how long the slots of a dead node wait after another data
// node's stream broke: two refused dials and some slack. What
// looks like one loss may be the first of many, and no slot should be granted
// to a node that is about to be found dead.
const examineTime = 250 * time.Millisecond

// protect begins or ends protection. next is when to check again whether it can
// end.
func (a *arranger) protect(ctx context.Context) (next time.Time, err error) {
	now := time.Now()
	d := a.roster.data(now)
	names := make([]string, len(d.live))
	for i, n := range d.live {
		names[i] = n.Name
	}
	floor := a.floor()
	if !a.state.Freeze.Frozen {
		n := len(names) + len(d.lost)
		switch {
		case len(d.lost) >= trigger(n):
			return time.Time{}, a.freeze(ctx, append(names, d.lost...),
				fmt.Sprintf("lost %d of %d data nodes within %v: %s", len(d.lost), n, a.config.NodeLease, strings.Join(d.lost, ", ")))
		case len(names) < floor && len(a.state.Table.Slots) > 0:
			return time.Time{}, a.freeze(ctx, names, fmt.Sprintf("%d data nodes are up, the floor is %d", len(names), floor))
		}
		return time.Time{}, nil
	}
	missing := slices.DeleteFunc(slices.Clone(a.watch.of), func(name string) bool { return slices.Contains(names, name) })
	if len(missing) >= trigger(len(a.watch.of)) || len(names) < floor {
		a.watch.recovered = time.Time{}
		return time.Time{}, nil
	}
	if a.watch.recovered.IsZero() {
		a.watch.recovered = now
	}
	end := a.watch.recovered.Add(a.config.NodeLease)
	if now.Before(end) {
		return end, nil
	}
	return time.Time{}, a.thaw(ctx, fmt.Sprintf("%d data nodes have been up for %v", len(names), a.config.NodeLease))
}

func (a *arranger) freeze(ctx context.Context, of []string, reason string) error {
	slices.Sort(of)
	if err := a.write(ctx, conclavesql.KindFreeze, freezeBody{wire.Freeze{Frozen: true, Reason: reason}, slices.Compact(of)}); err != nil {
		return fmt.Errorf("write the freeze: %w", err)
	}
	a.watch = protection{of: of}
	a.event(hclog.Debug, "freeze.begun", a.state.Freeze.Epoch, map[string]any{"reason": reason}, "protected, no slot leaves the nodes of its row: %s", reason)
	a.log.Error("protected: no slot leaves the nodes of its row until the data nodes are back, or others run under their names, or an operator ends it (DELETE /v1/protection)", "reason", reason)
	return nil
}

func (a *arranger) thaw(ctx context.Context, why string) error {
	if err := a.write(ctx, conclavesql.KindFreeze, freezeBody{}); err != nil {
		return fmt.Errorf("write the end of the freeze: %w", err)
	}
	a.watch = protection{}
	a.roster.clearLosses()
	a.event(hclog.Info, "freeze.ended", a.state.Freeze.Epoch, map[string]any{"why": why}, "no longer protected: %s", why)
	a.changed.Set()
	return nil
}

// resignIfUnreachable resigns if this leader reaches the database, but no
// session or data node has reached it for a lease less half a beat (a half-connected
// leader, as etcd and others call it), and reports whether it did. It abstains
// afterwards, does so at most once in ten leases, and removes no node from the
// list before.
//
// An open stream proves nothing: one that is cut stays open until an end of it
// notices.
func (a *arranger) resignIfUnreachable() bool {
	now := time.Now()
	members, last := a.roster.lastContact(now)
	if last.After(a.lastContact) {
		a.lastContact = last
	}
	if members == 0 {
		a.lastContact = now
	}
	if now.Before(a.unreachableAt()) {
		return false
	}
	a.lastContact = now
	abstained := make(chan bool, 1)
	a.background.Go(func() { // not from within Lead, since Abstain waits for Lead to return; it ends with the elector
		did, err := a.elector.Abstain(context.Background())
		abstained <- did || err != nil
		if did {
			a.log.Warn("resigned: no session or data node has reached this leader for a lease", "members", members)
		}
	})
	select {
	case did := <-abstained:
		return did
	case <-a.ctx.Done():
		return true
	}
}

// unreachableAt returns when this leader resigns unless a beat arrives before.
func (a *arranger) unreachableAt() time.Time {
	return a.lastContact.Add(a.config.NodeLease - a.config.Beat/2)
}

// isolated reports whether no beat has arrived for longer than can happen by
// chance. The leader itself may be cut off then, so no lease expires.
func (a *arranger) isolated(now time.Time) bool {
	return now.Sub(a.lastContact) > a.config.Beat*3/2
}
