package meta

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector"
	"conclave/meta/metaclient"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// follower is what a meta does while another node leads: it holds the stream to
// the leader, as sessions and data nodes do, and passes the beats to its elector,
// so that a calm cluster sends the database almost no requests.
type follower struct {
	self       conclave.NodeID
	log        hclog.Logger
	elector    *elector.Elector
	client     *metaclient.Client
	view       *wire.View
	leadership *leadership
	competes   func() bool
}

// runFollow holds the stream while this node does not lead. It returns when ctx
// ends, or when a living process has this node's name.
func (f *follower) runFollow(ctx context.Context) error {
	for ctx.Err() == nil {
		l, changed := f.leadership.current()
		if l != nil {
			select {
			case <-changed:
				f.client.AwaitSuccessor(ctx)
			case <-ctx.Done():
			}
			continue
		}
		following, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			defer end()
			select {
			case <-changed:
			case <-following.Done():
			}
		})
		err := f.client.Run(following)
		end()
		watching.Wait()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return ctx.Err()
}

// report returns what this node's beats report: a candidate is ready, an
// observer is not.
func (f *follower) report() (reports []*wirev1.SlotReport, load uint32, ready, draining bool) {
	return nil, 0, f.competes(), false
}

// observeBeat passes a beat that the database has acknowledged to the elector.
func (f *follower) observeBeat(m *wirev1.JoinResponse) {
	f.elector.Observe(elector.Term{
		Number: m.GetTerm(), Leader: wire.NodeIn(m.GetLeader()), Address: m.GetAddress(),
		Beat: m.GetBeat(), Lease: wire.FromMs(m.GetLeaseMs()),
	})
}

// suspectLeader makes the elector read the store more often: the leader may
// have crashed.
func (f *follower) suspectLeader(metaclient.Leader, error) { f.elector.Suspect() }

// leaderFromStore returns the leader that the database names, for the stream's
// client when it has no other address: a meta may have been started without the
// addresses of the others.
func (f *follower) leaderFromStore() (metaclient.Leader, bool) {
	t := f.elector.Current()
	if name, _ := f.leadership.otherLeader(); name == "" {
		return metaclient.Leader{}, false
	}
	return metaclient.Leader{Term: t.Number, Node: t.Leader, Address: t.Address}, true
}

// runNotice passes the leaders that the elector learns of to the stream's
// client, which may be seeking one.
func (f *follower) runNotice(ctx context.Context) {
	var last elector.Term
	for status := range f.elector.Changes(ctx) {
		if t := status.Term; t.Leader != f.self && !t.Leader.IsZero() && (t.Number != last.Number || t.Leader != last.Leader) {
			f.client.Announced(t.Number, t.Leader, t.Address)
		}
		last = status.Term
	}
}

// runObserve makes this node an observer while it is on the blacklist, and a
// candidate again when it is removed. A request to this node itself (quit,
// join) holds until the list changes.
func (f *follower) runObserve(ctx context.Context) {
	forbidden := false
	for {
		changed := f.view.Changed()
		now := f.view.State().Blacklist.Entries.Has(f.self.Name)
		if now != forbidden {
			act := f.elector.JoinElection
			if now {
				act = f.elector.Quit
			}
			if err := act(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, elector.ErrStopped) {
				f.log.Warn("cannot apply the blacklist to this node", "forbidden", now, "error", err)
			}
			forbidden = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
