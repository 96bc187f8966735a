package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// fakeData is a data node controlled by the test: it is a member, reports that
// it leads the slots that the table gives it, records what sessions write, and
// answers as configured.
type fakeData struct {
	wirev1connect.UnimplementedDataServiceHandler
	node    conclave.NodeID
	address string
	view    *wire.View
	peers   *wire.Peers
	beats   chan *wirev1.WatchEvent // sent on the feed

	mu     sync.Mutex // guards the rest
	writes []*wirev1.SlotBatch
	held   chan struct{} // if not nil, Write answers only when it is closed
	answer func(*wirev1.SlotBatch) *wirev1.SlotResult
	check  func(*wirev1.WriteRequest) error // may refuse a whole Write; nil: it is accepted
	value  *wirev1.Fetched
	stall  bool // Fetch waits for held as well
	older  bool // it knows no Writes
	opened int  // how many of them have begun
}

func (c *cluster) fakeData(name string) *fakeData {
	p := &fakeData{node: c.node(name), view: wire.NewView(), beats: make(chan *wirev1.WatchEvent)}
	fence := &wire.Fence{}
	ln, err := c.host(name).Listen(c.ctx, "tcp", c.port(9622))
	require.NoError(c.t, err)
	p.address = ln.Addr().String()
	icpt := &wire.Interceptor{Address: p.address, View: p.view, Fence: fence}
	p.peers = wire.NewPeers(c.host(name), icpt, wire.PingTimeout)
	meta := metaclient.New(metaclient.Config{
		Self:  wire.Member{Node: p.node, Role: conclave.RoleData, Address: p.address},
		Metas: []string{c.meta.address}, Peers: p.peers, View: p.view, Fence: fence, Rand: c.seed(), Report: p.report,
	})
	r := mux.NewRouter()
	path, h := wirev1connect.NewNodeServiceHandler(metaclient.NewNodeService(p.node, conclave.RoleData, p.view, fence, meta.Announced), serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	path, h = wirev1connect.NewDataServiceHandler(p, serve.HandlerOptions(icpt))
	serve.Mount(r, path, h)
	server := serve.NewHTTPServer(ln, r, wire.PingTimeout)
	c.all.Go(func() { _ = server.Serve() })
	c.all.Go(func() {
		_ = meta.Run(c.ctx)
		server.Close()
		p.peers.Close()
	})
	return p
}

// report reports every slot that the node leads as serving.
func (p *fakeData) report() (out []*wirev1.SlotReport, load uint32, ready, draining bool) {
	for _, s := range p.view.Table().Slots {
		if s.Leader == p.node {
			out = append(out, &wirev1.SlotReport{Slot: uint32(s.ID), LeaderEpoch: wire.EpochOut(s.LeaderEpoch), State: "serving"})
		}
	}
	return out, 0, true, false
}

func (p *fakeData) Write(ctx context.Context, req *connect.Request[wirev1.WriteRequest]) (*connect.Response[wirev1.WriteResponse], error) {
	p.mu.Lock()
	p.writes = append(p.writes, req.Msg.GetBatches()...)
	held, answer, check := p.held, p.answer, p.check
	p.mu.Unlock()
	if check != nil {
		if err := check(req.Msg); err != nil {
			return nil, wire.ToConnect(err)
		}
	}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	res := &wirev1.WriteResponse{}
	for _, b := range req.Msg.GetBatches() {
		r := &wirev1.SlotResult{Slot: b.GetSlot(), Access: wirev1.Access_ACCESS_ACCEPT, LeaderEpoch: b.GetLeaderEpoch()}
		if answer != nil {
			r = answer(b)
		}
		res.Results = append(res.Results, r)
	}
	return connect.NewResponse(res), nil
}

// Writes is Write for each of its requests.
func (p *fakeData) Writes(ctx context.Context, stream *connect.BidiStream[wirev1.WriteRequest, wirev1.WriteResponse]) error {
	p.mu.Lock()
	older := p.older
	p.opened++
	p.mu.Unlock()
	if older {
		return p.UnimplementedDataServiceHandler.Writes(ctx, stream)
	}
	for {
		req, err := stream.Receive()
		if err != nil {
			return err
		}
		res, err := p.Write(ctx, connect.NewRequest(req))
		if err != nil {
			return err
		}
		if err := stream.Send(res.Msg); err != nil {
			return err
		}
	}
}

func (p *fakeData) Fetch(ctx context.Context, req *connect.Request[wirev1.FetchRequest]) (*connect.Response[wirev1.FetchResponse], error) {
	p.mu.Lock()
	held, value, stall := p.held, p.value, p.stall
	p.mu.Unlock()
	if stall && held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	res := &wirev1.FetchResponse{}
	for _, s := range req.Msg.GetSlots() {
		f := &wirev1.FetchedSlot{Slot: s.GetSlot(), Access: wirev1.Access_ACCESS_ACCEPT, LeaderEpoch: s.GetLeaderEpoch()}
		for range s.GetWants() {
			f.Datums = append(f.Datums, value)
		}
		res.Slots = append(res.Slots, f)
	}
	return connect.NewResponse(res), nil
}

func (p *fakeData) Watch(ctx context.Context, _ *connect.Request[wirev1.WatchRequest], stream *connect.ServerStream[wirev1.WatchEvent]) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	event := &wirev1.WatchEvent{Beat: true}
	for {
		if err := stream.Send(event); err != nil {
			return err
		}
		select {
		case <-ticker.C:
			event = &wirev1.WatchEvent{Beat: true}
		case event = <-p.beats:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *fakeData) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// written returns the epochs at which a registration was written, in order.
func (p *fakeData) written(id string) (epochs []conclave.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.writes {
		for _, x := range b.GetPuts() {
			if x.GetId() == id {
				epochs = append(epochs, wire.EpochIn(b.GetLeaderEpoch()))
			}
		}
	}
	return epochs
}

// streams returns how many Writes have begun.
func (p *fakeData) streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// diff sends a diff as the leader of a slot at an epoch would.
func (p *fakeData) diff(s interface{ Address() string }, session conclave.NodeID, slot int, epoch conclave.Epoch, change ...func(*wirev1.DiffRequest)) (*wirev1.DiffResponse, error) {
	req := &wirev1.DiffRequest{Asker: wire.NodeOut(p.node), AskerAddress: p.address, Slot: uint32(slot), LeaderEpoch: wire.EpochOut(epoch), Session: wire.NodeOut(session)}
	for _, f := range change {
		f(req)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	res, err := p.peers.Session(s.Address()).Diff(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, wire.FromConnect(err)
	}
	return res.Msg, nil
}

// stored reports, without waiting, whether a publication is known to be stored.
func stored(p *client.Publication) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	return p.Stored(ctx) == nil
}

// A diff is a fence: an acknowledgement of a lower epoch that arrives after it
// does not count, nothing is sent at the lower epoch any more, and what was not
// stored is sent again at the new one, to the asker.
func TestDiffIsAFence(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		old := c.fakeData("data-1")
		c.settle()
		s := c.sessions["session-1"].server
		release := make(chan struct{})
		old.set(func() { old.held = release })
		p := c.publish(c.client("writer"), "svc", "a")
		c.eventually("the old leader was written to", func() bool { return len(old.written(p.ID())) == 1 })
		e1 := old.written(p.ID())[0]
		row := c.meta.view.Table().Of(p.Data().String())

		next := c.fakeData("data-2")
		e2 := conclave.Epoch{Term: 2, Seq: 1}
		res, err := next.diff(s, c.ids[s], row.ID, e2)
		require.NoError(t, err)
		require.Len(t, res.GetPuts(), 1, "what was sent at the old epoch is in the answer")
		assert.Equal(t, p.ID(), res.GetPuts()[0].GetId())

		close(release) // the old leader's acknowledgement arrives now
		c.eventually("it is written to the new leader", func() bool { return len(next.written(p.ID())) > 0 })
		assert.Equal(t, []conclave.Epoch{e2}, next.written(p.ID()))
		assert.Equal(t, []conclave.Epoch{e1}, old.written(p.ID()))
		c.eventually("it is stored", func() bool { return stored(p) })

		_, err = old.diff(s, c.ids[s], row.ID, e1)
		assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(err), "%v", err)
		var refusal *wire.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, e2, refusal.Epoch)
	})
}

// It is one for each slot of a request. One whose registrations differ is to be asked for
// alone, and so is one that cannot be.
func TestDiffIsAFence_ForFurtherSlots(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		old, s := c.fakeData("data-1"), c.sessions["session-1"].server
		c.settle()
		p := c.publish(c.client("writer"), "svc", "a")
		c.eventually("it is stored", func() bool { return stored(p) })
		e1, e2 := old.written(p.ID())[0], conclave.Epoch{Term: 2, Seq: 1}
		own := c.meta.view.Table().Of(p.Data().String()).ID
		first, other := (own+1)%16, (own+2)%16
		next := c.fakeData("data-2")
		res, err := next.diff(s, c.ids[s], first, e2, func(r *wirev1.DiffRequest) {
			for _, id := range []int{own, other, slot.MaxSlots + 100} {
				r.Also = append(r.Also, &wirev1.DiffSlot{Slot: uint32(id), LeaderEpoch: wire.EpochOut(e2)})
			}
			r.Also = append(r.Also, &wirev1.DiffSlot{Slot: uint32(other), LeaderEpoch: wire.EpochOut(e1)})
		})
		require.NoError(t, err)
		assert.True(t, res.GetSame())
		var same []bool
		for _, a := range res.GetAlso() {
			same = append(same, a.GetSame())
		}
		assert.Equal(t, []bool{false, true, false, false}, same, "it differs; there is no such slot; the epoch is old")
		for _, id := range []int{first, own, other} {
			_, err := old.diff(s, c.ids[s], id, e1)
			assert.Equal(t, wire.CodeStaleEpoch, wire.CodeOf(err), "slot %d: %v", id, err)
		}
	})
}

// An acknowledgement at a lower epoch does not count, even before one at the
// new epoch has come.
func TestAckOfAnOlderEpochDoesNotCount(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		old := c.fakeData("data-1")
		c.settle()
		s := c.sessions["session-1"].server
		release := make(chan struct{})
		old.set(func() { old.held = release })
		p := c.publish(c.client("writer"), "svc", "a")
		c.eventually("the old leader was written to", func() bool { return len(old.written(p.ID())) == 1 })
		next := c.fakeData("data-2")
		next.set(func() {
			next.answer = func(b *wirev1.SlotBatch) *wirev1.SlotResult {
				return &wirev1.SlotResult{Slot: b.GetSlot(), Access: wirev1.Access_ACCESS_MOVED}
			}
		})
		_, err := next.diff(s, c.ids[s], c.meta.view.Table().Of(p.Data().String()).ID, conclave.Epoch{Term: 2, Seq: 1})
		require.NoError(t, err)
		close(release)
		time.Sleep(time.Second)
		assert.False(t, stored(p))
		tries := len(next.written(p.ID()))
		assert.Greater(t, tries, 15, "after 1, 2, 4.. ms, at most 50 ms apart")
		assert.Less(t, tries, 40)
		assert.GreaterOrEqual(t, next.streams(), tries, "each compares the tables")
		next.set(func() { next.answer = nil })
		c.eventually("the new leader accepts it", func() bool { return stored(p) })
	})
}

// A registration that data always refuses does not block others: the Writes get
// smaller until it is found; then it is refused, and what data has of it is
// removed.
func TestRegistrationThatDataRefusesIsDropped(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		node := c.fakeData("data-1")
		c.settle()
		x := c.client("writer")
		bad := c.publish(x, "svc", "small")
		c.eventually("it is stored", func() bool { return stored(bad) })
		node.set(func() {
			node.check = func(req *wirev1.WriteRequest) error {
				for _, b := range req.GetBatches() {
					for _, p := range b.GetPuts() {
						if p.GetId() == bad.ID() {
							return wire.Errorf(wire.CodeTooLarge, "no")
						}
					}
				}
				return nil
			}
		})
		require.NoError(t, bad.Update([]string{"large"}))
		var good []*client.Publication
		for i := range 20 {
			good = append(good, c.publish(x, "svc", fmt.Sprint(i))) // in the same slot
		}
		c.eventually("it is refused", func() bool { return wire.CodeOf(bad.Err()) == wire.CodeTooLarge })
		for _, p := range good {
			c.eventually("the others are stored", func() bool { return stored(p) })
		}
		assert.Len(t, c.list(c.sessions["session-1"].server.Address(), "/v1/publishers"), 20)
		node.mu.Lock()
		defer node.mu.Unlock()
		removed := int64(0)
		for _, b := range node.writes {
			for _, r := range b.GetRemovals() {
				removed = max(removed, r.GetVersion())
			}
		}
		assert.EqualValues(t, 2, removed)
	})
}

// A read answer of a lower epoch that arrives after a fence is not pushed.
func TestReadingOfAnOlderEpochDoesNotCount(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		key := "svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
		old := c.fakeData("data-1")
		c.settle()
		s := c.sessions["session-1"].server
		release := make(chan struct{})
		old.set(func() {
			old.held, old.stall = release, true
			old.value = &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: key, Version: 5, Values: []string{"old"}}}
		})
		sub := c.watch(c.client("reader"), "svc")
		next := c.fakeData("data-2")
		next.set(func() {
			next.value = &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: key, Version: 9, Values: []string{"new"}}}
		})
		time.Sleep(100 * time.Millisecond)
		row := c.meta.view.Table().Of(key)
		_, err := next.diff(s, c.ids[s], row.ID, conclave.Epoch{Term: 2, Seq: 1})
		require.NoError(t, err)
		close(release)
		c.eventually("the new leader's value is pushed", sub.shows("new"))
		time.Sleep(time.Second)
		assert.Len(t, sub.all(), 1, "the old leader's value was not pushed")
		res, err := next.diff(s, c.ids[s], row.ID, conclave.Epoch{Term: 2, Seq: 2})
		require.NoError(t, err)
		assert.EqualValues(t, 9, res.GetHighestPushed())
	})
}

// A diff that names another incarnation gets an answer with the session's own
// incarnation, and nothing else.
func TestDiffForAnotherIncarnation(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		d := c.fakeData("data-1")
		c.settle()
		c.published(c.client("writer"), "svc", "a")
		s := c.sessions["session-1"].server
		other := conclave.NodeID{Name: c.ids[s].Name, Incarnation: "before"}
		res, err := d.diff(s, other, c.meta.view.Table().Of("svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP").ID, conclave.Epoch{Term: 5, Seq: 1},
			func(r *wirev1.DiffRequest) { r.Count, r.Digest = 3, 4 })
		require.NoError(t, err)
		assert.Equal(t, c.ids[s], wire.NodeIn(res.GetSession()))
		assert.False(t, res.GetSame() || res.GetSummarize())
		assert.Empty(t, res.GetPuts())
		assert.Empty(t, res.GetRemoved())
	})
}

// A leader that reports a higher epoch is followed at once; a gap in its feed
// makes the session read again.
func TestFeedResetAndGap(t *testing.T) {
	bubble(t, 0, 1, func(t *testing.T, c *cluster) {
		key := "svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
		d := c.fakeData("data-1")
		c.settle()
		show := func(version int64, value string) {
			d.set(func() {
				d.value = &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: key, Version: version, Values: []string{value}}}
			})
		}
		show(1, "one")
		sub := c.watch(c.client("reader"), "svc")
		c.eventually("the first is read", sub.shows("one"))
		row := c.meta.view.Table().Of(key)
		event := func(e conclave.Epoch, from, position uint64, reset bool, keys ...string) {
			d.beats <- &wirev1.WatchEvent{Changes: []*wirev1.SlotChange{{
				Slot: uint32(row.ID), LeaderEpoch: wire.EpochOut(e), From: from, Position: position, Reset_: reset, DataInfoIds: keys,
			}}}
		}
		event(row.LeaderEpoch, 0, 10, true)
		time.Sleep(50 * time.Millisecond)
		show(2, "two")
		event(row.LeaderEpoch, 10, 11, false, "other")
		time.Sleep(50 * time.Millisecond)
		assert.Len(t, sub.all(), 1, "another dataId changed")
		event(row.LeaderEpoch, 11, 12, false, key)
		c.eventually("the change is read", sub.shows("two"))
		show(3, "three")
		event(row.LeaderEpoch, 13, 14, false)
		c.eventually("a gap makes it read again", sub.shows("three"))
		carry := func(e conclave.Epoch, from, version int64, value string) {
			d.beats <- &wirev1.WatchEvent{Changes: []*wirev1.SlotChange{{
				Slot: uint32(row.ID), LeaderEpoch: wire.EpochOut(e), From: uint64(from), Position: uint64(from + 1),
				Answers: []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: key, Version: version, Values: []string{value}}}},
			}}}
		}
		time.Sleep(50 * time.Millisecond)
		carry(row.LeaderEpoch, 14, 5, "carried")
		c.eventually("what the feed carries is not read", sub.shows("carried"))
		carry(row.LeaderEpoch, 15, 4, "older")
		time.Sleep(50 * time.Millisecond)
		assert.True(t, sub.shows("carried")(), "an older version does not count")
		show(6, "six")
		carry(row.LeaderEpoch, 17, 7, "after a gap")
		c.eventually("after a gap it is read", sub.shows("six"))
		next := conclave.Epoch{Term: 3, Seq: 1}
		show(14, "four")
		event(next, 0, 1, true)
		c.eventually("a new epoch too", sub.shows("four"))
		show(15, "five")
		event(row.LeaderEpoch, 14, 15, true, key)
		carry(row.LeaderEpoch, 15, 16, "of the old epoch")
		time.Sleep(time.Second)
		assert.True(t, sub.shows("four")(), "the old epoch does not count")
		p := c.published(c.client("writer"), "svc", "x")
		assert.Equal(t, []conclave.Epoch{next}, d.written(p.ID()))
	})
}
