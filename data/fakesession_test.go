package data_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/list"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// session keeps its own registrations, adopts fences, and writes to each slot's
// leader.
type session struct {
	wirev1connect.UnimplementedSessionServiceHandler
	c       *cluster
	id      conclave.NodeID
	address string
	peers   *wire.Peers
	server  *serve.HTTPServer
	served  chan struct{}

	mu     sync.Mutex // guards the rest
	set    map[string]*wirev1.Publisher
	routes map[int]sessionRoute
	pushed int64
	mute   chan struct{} // diffs wait until it is closed; nil if they do not wait
	diffs  []*wirev1.DiffRequest
	holds  func(slot int) bool // the slots whose diffs are refused; nil for none
	old    bool                // it does not know DiffRequest.also
}

type sessionRoute struct {
	epoch   conclave.Epoch
	address string
}

// session starts a session; listed reports whether it becomes a member.
func (c *cluster) session(name string, listed bool) *session {
	c.incarnations++
	s := &session{
		c: c, id: conclave.NodeID{Name: name, Incarnation: fmt.Sprint("i", c.incarnations)},
		set: map[string]*wirev1.Publisher{}, routes: map[int]sessionRoute{}, served: make(chan struct{}),
	}
	ln := c.listen(name, ":9603")
	s.address = ln.Addr().String()
	i := &wire.Interceptor{Address: s.address}
	s.peers = wire.NewPeers(c.host(name), i, wire.PingTimeout)
	r := mux.NewRouter()
	path, h := wirev1connect.NewSessionServiceHandler(s, serve.HandlerOptions(i))
	serve.Mount(r, path, h)
	s.server = serve.NewHTTPServer(ln, r, wire.PingTimeout)
	go func() {
		defer close(s.served)
		_ = s.server.Serve()
	}()
	c.t.Cleanup(s.kill)
	if listed {
		c.join(wire.Member{Node: s.id, Role: conclave.RoleSession, Address: s.address})
	}
	return s
}

func (s *session) kill() {
	s.unmute()
	s.c.cut(s.id.Name)
	s.server.Close()
	<-s.served
	s.peers.Close()
}

func (s *session) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute == nil {
		s.mute = make(chan struct{})
	}
}

func (s *session) unmute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute != nil {
		close(s.mute)
		s.mute = nil
	}
}

// Diff adopts the fence, then answers.
func (s *session) Diff(ctx context.Context, req *connect.Request[wirev1.DiffRequest]) (*connect.Response[wirev1.DiffResponse], error) {
	m := req.Msg
	s.mu.Lock()
	s.diffs = append(s.diffs, m)
	mute := s.mute
	s.mu.Unlock()
	if mute != nil {
		select {
		case <-mute:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := s.answer(m)
	if err != nil {
		return nil, err
	}
	for _, also := range m.GetAlso() {
		if s.old {
			break
		}
		one, _ := s.answer(&wirev1.DiffRequest{
			AskerAddress: m.AskerAddress, Session: m.Session, Slot: also.Slot, LeaderEpoch: also.LeaderEpoch, Count: also.Count, Digest: also.Digest,
		})
		out.Also = append(out.Also, &wirev1.DiffedSlot{Same: one.GetSame(), HighestPushed: one.GetHighestPushed()})
	}
	return connect.NewResponse(out), nil
}

// answer answers for one slot. The lock is held.
func (s *session) answer(m *wirev1.DiffRequest) (*wirev1.DiffResponse, error) {
	id, epoch := int(m.GetSlot()), wire.EpochIn(m.GetLeaderEpoch())
	if epoch.Less(s.routes[id].epoch) {
		return nil, wire.ToConnect(&wire.Error{Code: wire.CodeStaleEpoch, Message: "a newer leader is known", Epoch: s.routes[id].epoch})
	}
	s.routes[id] = sessionRoute{epoch, m.GetAskerAddress()}
	out := &wirev1.DiffResponse{Session: wire.NodeOut(s.id), HighestPushed: s.pushed}
	if wire.NodeIn(m.GetSession()) != s.id {
		return out, nil
	}
	if s.holds != nil && s.holds(id) {
		return nil, wire.ToConnect(wire.Errorf(wire.CodeUnavailable, "registrations of slot %d are held back", id))
	}
	slots := len(s.c.table().Slots)
	var count, sum uint64
	mine := map[string]*wirev1.Publisher{}
	for _, p := range s.set {
		if slot.Of(p.DataInfoId, slots) == id {
			mine[p.Id] = p
			count++
			sum += list.EntryHash(p.Id, p.Version)
		}
	}
	switch {
	case count == m.GetCount() && sum == m.GetDigest():
		out.Same = true
	case !m.GetSummarized():
		out.Summarize = true
	default:
		theirs := map[string]int64{}
		for _, e := range m.GetEntries() {
			theirs[e.GetId()] = e.GetVersion()
			if _, ok := mine[e.GetId()]; !ok {
				out.Removed = append(out.Removed, e)
			}
		}
		for _, rid := range slices.Sorted(maps.Keys(mine)) {
			if p := mine[rid]; theirs[rid] < p.Version {
				if len(out.Puts) == 3 { // few, so that `more` is tested
					out.More = true
					break
				}
				out.Puts = append(out.Puts, p)
			}
		}
	}
	return out, nil
}

// put changes the session's registrations, which are the source of truth, and
// writes nothing.
func (s *session) put(p *wirev1.Publisher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set[p.Id] = p
}

func (s *session) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, id)
}

// learn adopts the slot's row in the table unless a higher fence is known, and
// returns the route.
func (s *session) learn(id int) sessionRoute {
	row := s.c.table().Slots[id]
	m, _ := s.c.members().Find(row.Leader.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routes[id].epoch.Less(row.LeaderEpoch) || s.routes[id].epoch == row.LeaderEpoch && m.Node == row.Leader {
		s.routes[id] = sessionRoute{row.LeaderEpoch, m.Address}
	}
	return s.routes[id]
}

// fence returns the epoch that the session has adopted for a slot.
func (s *session) fence(id int) conclave.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes[id].epoch
}

// asked returns the number of diffs received.
func (s *session) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.diffs)
}

// at returns a route to a given node and epoch.
func (s *session) at(n *node, e conclave.Epoch) sessionRoute {
	return sessionRoute{e, n.Address()}
}

// write sends one batch by a route. The access counts only if the session has
// not adopted a higher epoch in the meantime.
func (s *session) write(to sessionRoute, id int, puts []*wirev1.Publisher, removals ...*wirev1.Removal) (wirev1.Access, error) {
	b := &wirev1.SlotBatch{Slot: uint32(id), LeaderEpoch: wire.EpochOut(to.epoch), Puts: puts, Removals: removals}
	ctx, cancel := context.WithTimeout(s.c.t.Context(), time.Second)
	defer cancel()
	res, err := s.peers.Data(to.address).Write(ctx, connect.NewRequest(&wirev1.WriteRequest{Session: wire.NodeOut(s.id), Batches: []*wirev1.SlotBatch{b}}))
	if err != nil {
		return 0, wire.FromConnect(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.epoch.Less(s.routes[id].epoch) {
		return 0, errors.New("the answer of an older epoch does not count")
	}
	return res.Msg.GetResults()[0].GetAccess(), nil
}

// store writes a registration until the slot's leader has stored it.
func (s *session) store(p *wirev1.Publisher) {
	s.put(p)
	id := slot.Of(p.DataInfoId, len(s.c.table().Slots))
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		s.mu.Lock()
		newest := s.set[p.Id]
		s.mu.Unlock()
		if access, err := s.write(s.learn(id), id, []*wirev1.Publisher{newest}); err == nil && access == wirev1.Access_ACCESS_ACCEPT {
			return
		}
		select {
		case <-time.After(wait):
		case <-s.c.t.Context().Done():
			return
		}
	}
}

// fetch reads one datum by a route.
func (s *session) fetch(to sessionRoute, dataID string) (*wirev1.Fetched, wirev1.Access, error) {
	id := slot.Of(dataID, len(s.c.table().Slots))
	ctx, cancel := context.WithTimeout(s.c.t.Context(), time.Second)
	defer cancel()
	res, err := s.peers.Data(to.address).Fetch(ctx, connect.NewRequest(&wirev1.FetchRequest{
		Session: wire.NodeOut(s.id),
		Slots:   []*wirev1.FetchSlot{{Slot: uint32(id), LeaderEpoch: wire.EpochOut(to.epoch), Wants: []*wirev1.Want{{DataInfoId: dataID}}}},
	}))
	if err != nil {
		return nil, 0, wire.FromConnect(err)
	}
	f := res.Msg.GetSlots()[0]
	if f.GetAccess() != wirev1.Access_ACCESS_ACCEPT {
		return nil, f.GetAccess(), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.epoch.Less(s.routes[id].epoch) {
		return nil, 0, errors.New("the answer of an older epoch does not count")
	}
	return f.GetDatums()[0], f.GetAccess(), nil
}

// read returns the values that the session would push, or false if no node
// serves the slot.
func (s *session) read(dataID string) ([]string, bool) {
	f, access, err := s.fetch(s.learn(slot.Of(dataID, len(s.c.table().Slots))), dataID)
	if err != nil || access != wirev1.Access_ACCESS_ACCEPT {
		return nil, false
	}
	return f.GetDatum().GetValues(), true
}

// watch opens the session's feed from a node and records it until ctx ends.
func (s *session) watch(ctx context.Context, n *node) *feed { return s.watchAnswers(ctx, n, false) }

// watchAnswers is watch with or without answers.
func (s *session) watchAnswers(ctx context.Context, n *node, answers bool) *feed {
	f := &feed{ended: make(chan struct{})}
	stream, err := s.peers.Data(n.Address()).Watch(ctx, connect.NewRequest(&wirev1.WatchRequest{Session: wire.NodeOut(s.id), Answers: answers}))
	require.NoError(s.c.t, err)
	go func() {
		defer close(f.ended)
		for stream.Receive() {
			f.mu.Lock()
			f.events = append(f.events, stream.Msg())
			f.mu.Unlock()
		}
		_ = stream.Close()
	}()
	return f
}

type feed struct {
	ended  chan struct{}
	mu     sync.Mutex // guards events
	events []*wirev1.WatchEvent
}

func (f *feed) changes() (out []*wirev1.SlotChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		out = append(out, e.GetChanges()...)
	}
	return out
}
