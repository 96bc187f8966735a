package meta

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	conclavesql "conclave/sql"
)

// protection keeps the table still when too many data nodes are lost at once:
// then it is more likely that the leader cannot see than that they are all dead,
// and moving everything onto the rest would bring the rest down (Eureka's
// self-preservation; the original only has a fixed floor).
//
// It counts data nodes alone. A session's loss moves no slot, and its publishers
// stay for the session grace anyway; were it counted, a data node and a session
// killed within three seconds would leave a third of the slots unserved.
type protection struct {
	of     []string  // the data nodes there were when it was frozen; stored with it
	better time.Time // since when enough are back; zero: they are not
}

// trigger is how many of n data nodes must be lost within one lease.
func trigger(n int) int { return max(2, (n+2)/3) }

// examination is how long the slots of a dead node wait while another data node's
// stream has just broken: two refused dials, 100 ms apart, and some slack. What
// looks like one loss may be the beginning of many, and no slot should be given
// to a node that is about to be found dead.
const examination = 250 * time.Millisecond

// protect freezes the cluster, or ends that. better is when to look again for
// its end.
func (a *arranger) protect(ctx context.Context) (better time.Time, err error) {
	now := time.Now()
	live, _ := a.l.roster.live()
	names := make([]string, len(live))
	for i, n := range live {
		names[i] = n.Name
	}
	floor := a.floor()
	if !a.state.Freeze.Frozen {
		lost := a.l.roster.lost(now)
		n := len(names) + len(lost)
		switch {
		case len(lost) >= trigger(n):
			return time.Time{}, a.freeze(ctx, append(names, lost...),
				fmt.Sprintf("lost %d of %d data nodes within %v: %s", len(lost), n, a.l.s.cfg.NodeLease, strings.Join(lost, ", ")))
		case len(live) < floor && len(a.state.Table.Slots) > 0:
			return time.Time{}, a.freeze(ctx, names, fmt.Sprintf("%d data nodes are up, the floor is %d", len(live), floor))
		}
		return time.Time{}, nil
	}
	missing := slices.DeleteFunc(slices.Clone(a.watch.of), func(name string) bool { return slices.Contains(names, name) })
	if len(missing) >= trigger(len(a.watch.of)) || len(live) < floor {
		a.watch.better = time.Time{}
		return time.Time{}, nil
	}
	if a.watch.better.IsZero() {
		a.watch.better = now
	}
	end := a.watch.better.Add(a.l.s.cfg.NodeLease)
	if now.Before(end) {
		return end, nil
	}
	return time.Time{}, a.thaw(ctx, fmt.Sprintf("%d data nodes have been up for %v", len(live), a.l.s.cfg.NodeLease))
}

func (a *arranger) freeze(ctx context.Context, of []string, reason string) error {
	slices.Sort(of)
	if err := a.write(ctx, conclavesql.KindFreeze, freezeBody{Frozen: true, Reason: reason, Of: slices.Compact(of)}); err != nil {
		return fmt.Errorf("write the freeze: %w", err)
	}
	a.watch = protection{of: of}
	epoch := a.state.Freeze.Epoch
	a.l.s.event("freeze.begun", a.l.term.Number, &epoch, map[string]any{"reason": reason}, "protected, no slot moves: %s", reason)
	a.log.Error("protected: no slot moves until the data nodes are back, or an operator ends it", "reason", reason)
	return nil
}

func (a *arranger) thaw(ctx context.Context, why string) error {
	if err := a.write(ctx, conclavesql.KindFreeze, freezeBody{}); err != nil {
		return fmt.Errorf("write the end of the freeze: %w", err)
	}
	a.watch = protection{}
	a.l.roster.forgive()
	epoch := a.state.Freeze.Epoch
	a.l.s.event("freeze.ended", a.l.term.Number, &epoch, map[string]any{"why": why}, "no longer protected: %s", why)
	a.log.Info("no longer protected", "why", why)
	a.wake()
	return nil
}

// useless says that this leader is of no use: the database is reached, but no
// session or data node has been for a whole lease. Such a leader resigns and
// stands aside (etcd and others know it as the half-connected leader), at most
// once in ten leases; and it takes nobody off the list on the way.
//
// A stream that is open proves nothing: one that is cut stays open for as long as
// nobody says that it ended.
func (a *arranger) useless() bool {
	members, spoke := a.l.roster.reached()
	now := time.Now()
	if spoke.After(a.l.reached) {
		a.l.reached = spoke
	}
	if members == 0 {
		a.l.reached = now
	}
	if now.Before(a.uselessAt()) {
		return false
	}
	a.l.reached = now
	abstained := make(chan bool, 1)
	a.l.s.background.Go(func() { // Abstain waits for Lead's end: it cannot be called from within, and ends with the elector
		did, err := a.l.s.elector.Abstain(context.Background())
		abstained <- did || err != nil
		if did {
			a.log.Warn("resigned: no session or data node has reached this leader for a lease", "members", members)
		}
	})
	select {
	case did := <-abstained:
		return did
	case <-a.l.ctx.Done():
		return true
	}
}

// uselessAt is when this leader gives up if nobody speaks before.
func (a *arranger) uselessAt() time.Time {
	return a.l.reached.Add(a.l.s.cfg.NodeLease - a.l.s.cfg.Beat/2)
}

// deaf says that nobody has spoken for longer than all of them can be silent by
// chance: as long as this leader may be the one that is cut off, nobody's lease
// is judged.
func (a *arranger) deaf(now time.Time) bool {
	return now.Sub(a.l.reached) > a.l.s.cfg.Beat*3/2
}
