package meta

import (
	"context"
	"errors"
	"slices"
	"sync"

	"conclave/elector"
	"conclave/meta/metaclient"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// What a meta does while another node leads: it holds the stream to the leader,
// as sessions and data nodes do, and passes the beats to its elector, so that a
// calm cluster sends the database almost no requests.

// runFollow holds the stream while this node does not lead. It returns when ctx
// ends, or when a living process has this node's name.
func (s *Server) runFollow(ctx context.Context) error {
	for ctx.Err() == nil {
		l, changed := s.leading()
		if l != nil {
			select {
			case <-changed:
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
		err := s.client.Run(following)
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
func (s *Server) report() (reports []*wirev1.SlotReport, load uint32, ready, draining bool) {
	return nil, 0, !s.elector.Observing() && s.quitting.Load() == 0, false
}

// observeBeat passes a beat that the database has acknowledged to the elector.
func (s *Server) observeBeat(m *wirev1.JoinResponse) {
	s.elector.Observe(elector.Term{
		Number: m.GetTerm(), Leader: wire.NodeIn(m.GetLeader()), Address: m.GetAddress(),
		Beat: m.GetBeat(), Lease: wire.FromMs(m.GetLeaseMs()),
	})
}

// suspectLeader makes the elector read the store more often: the leader may
// have crashed.
func (s *Server) suspectLeader(metaclient.Leader, error) { s.elector.Suspect() }

// leaderFromStore returns the leader that the database names, for the stream's
// client when it has no other address: a meta may have been started without the
// addresses of the others.
func (s *Server) leaderFromStore() (metaclient.Leader, bool) {
	t := s.elector.Current()
	if name, _ := s.currentLeader(); name == "" {
		return metaclient.Leader{}, false
	}
	return metaclient.Leader{Term: t.Number, Node: t.Leader, Address: t.Address}, true
}

// runNotice passes the leaders that the elector learns of to the stream's
// client, which may be seeking one.
func (s *Server) runNotice(ctx context.Context) {
	for change := range s.elector.Changes(ctx) {
		if t := change.Term; !change.Leading && !t.Leader.IsZero() && t.Leader != s.cfg.Node {
			s.client.Announced(t.Number, t.Leader, t.Address)
		}
	}
}

// runObserve makes this node an observer while it is on the blacklist, and a
// candidate again when it is removed. A request to this node itself (quit,
// join) holds until the list changes.
func (s *Server) runObserve(ctx context.Context) {
	forbidden := false
	for {
		changed := s.view.Changed()
		now := slices.Contains(forbiddenNames(s.view.State()), s.cfg.Node.Name)
		if now != forbidden {
			act := s.elector.JoinElection
			if now {
				act = s.elector.Quit
			}
			if err := act(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, elector.ErrStopped) {
				s.log.Warn("cannot apply the blacklist to this node", "forbidden", now, "error", err)
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

// forbiddenNames returns the names on the blacklist.
func forbiddenNames(st wire.State) []string {
	names := make([]string, len(st.Blacklist.Entries))
	for i, e := range st.Blacklist.Entries {
		names[i] = e.Name
	}
	return names
}
