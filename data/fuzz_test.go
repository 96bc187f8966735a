package data

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/data/store"
	"conclave/internal/signal"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// serving returns a data node that serves slot 0 of two, at an epoch, and
// follows another node's feed of slot 1.
func serving(t *testing.T, epoch conclave.Epoch) (*Server, conclave.NodeID) {
	config := DefaultConfig()
	config.Node, config.Metas, config.Insecure = conclave.NodeID{Name: "data-1", Incarnation: "i"}, []string{"meta-1:9611"}, true
	s, err := New(config)
	require.NoError(t, err)
	leader, now := conclave.NodeID{Name: "data-2", Incarnation: "j"}, time.Now()
	var list []*replica
	for id := range 2 {
		list = append(list, &replica{id: id, grace: config.SessionGrace, watchers: &s.service.feeds.watchers})
	}
	s.replicas.set(list)
	r := list[0]
	r.mu.Lock()
	r.enter(slot.Migrating, epoch)
	r.store.Serve(1<<22, time.Time{}, now)
	r.enter(slot.Serving, epoch)
	r.mu.Unlock()
	list[1].follow(leader, epoch, now)
	return s, leader
}

// dataIDAt returns a data info id of a slot of two.
func dataIDAt(n int) string {
	for name := "a"; ; name += "a" {
		if key := name + "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"; slot.Of(key, 2) == n {
			return key
		}
	}
}

// FuzzRequests gives a data node arbitrary requests of a session and of a
// successor. Whatever they contain, the epoch at which the slot is served stays
// or the slot is finished, what is read is what was written at that epoch, and a
// slot that is finished stays so.
func FuzzRequests(f *testing.F) {
	epoch, key := &wirev1.Epoch{Term: 3, Seq: 7}, dataIDAt(0)
	session := &wirev1.Node{Name: "session-1", Incarnation: "s"}
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		return b
	}
	write := marshal(&wirev1.WriteRequest{Session: session, Number: 1, Batches: []*wirev1.SlotBatch{{
		LeaderEpoch: epoch, Puts: []*wirev1.Publisher{{Id: "p", DataInfoId: key, Version: 1, Values: []string{"v"}}},
		Removals: []*wirev1.Removal{{Id: "q", DataInfoId: key, Version: 4, Cause: wirev1.Cause_CAUSE_CLIENT_GONE}},
	}}})
	fetch := marshal(&wirev1.FetchRequest{Session: session, Slots: []*wirev1.FetchSlot{{LeaderEpoch: epoch, Wants: []*wirev1.Want{{DataInfoId: key, Version: 1 << 60, Deltas: true, Hash: 1}}}, {Slot: 1}}})
	finish := marshal(&wirev1.FinishRequest{Successor: session, Slots: []*wirev1.FinishSlot{{LeaderEpoch: &wirev1.Epoch{Term: 3, Seq: 8}}}})
	never := marshal(&wirev1.FinishRequest{Slots: []*wirev1.FinishSlot{{LeaderEpoch: &wirev1.Epoch{Term: 1<<64 - 1}}, {Slot: 1}, {Slot: 9}}})
	f.Add(write, fetch, finish)
	f.Add(write, fetch, never)
	parts := marshal(&wirev1.FetchRequest{Session: session, Slots: []*wirev1.FetchSlot{{LeaderEpoch: epoch, Wants: []*wirev1.Want{
		{DataInfoId: key, Parts: true}, {DataInfoId: key, Parts: true, PartHash: list.ContentHash([]string{"v"}), ValuesAt: 1, PublishersAt: 1 << 31},
	}}}})
	f.Add(write, parts, finish)
	f.Fuzz(func(t *testing.T, write, fetch, finish []byte) {
		at := conclave.Epoch{Term: 3, Seq: 7}
		s, _ := serving(t, at)
		r := s.replicas.of(0)
		var w wirev1.WriteRequest
		var g wirev1.FetchRequest
		var end wirev1.FinishRequest
		if proto.Unmarshal(write, &w) != nil || proto.Unmarshal(fetch, &g) != nil || proto.Unmarshal(finish, &end) != nil {
			return
		}
		accepted := 0
		if res, err := s.service.Write(t.Context(), connect.NewRequest(&w)); err == nil {
			for i, result := range res.Msg.GetResults() {
				if result.GetAccess() == wirev1.Access_ACCESS_ACCEPT {
					require.Equal(t, at, wire.EpochIn(w.GetBatches()[i].GetLeaderEpoch()))
					accepted += len(w.GetBatches()[i].GetPuts())
				}
			}
		}
		copies := r.store.All()
		assert.LessOrEqual(t, len(copies), accepted)
		if res, err := s.service.Fetch(t.Context(), connect.NewRequest(&g)); err == nil {
			for i, fetched := range res.Msg.GetSlots() {
				if fetched.GetAccess() == wirev1.Access_ACCESS_ACCEPT {
					require.Equal(t, at, wire.EpochIn(g.GetSlots()[i].GetLeaderEpoch()))
				}
			}
		}
		assert.Equal(t, copies, r.store.All(), "reading changes nothing")
		for range 2 {
			res, err := s.service.Finish(t.Context(), connect.NewRequest(&end))
			require.NoError(t, err)
			finished := false
			for i, in := range end.GetSlots() {
				next := wire.EpochIn(in.GetLeaderEpoch())
				named := in.GetSlot() == 0 && at.Less(next) && next.Plausible(at)
				assert.Equal(t, named, res.Msg.GetSlots()[i].GetAccess() == wirev1.Access_ACCESS_ACCEPT)
				finished = finished || named
			}
			assert.Equal(t, at, r.epoch)
			assert.Equal(t, finished, r.state == slot.Finished)
			assert.Equal(t, copies, r.store.All(), "the copy stays")
		}
	})
}

// FuzzFeedOfLeader gives a follower arbitrary messages of its leader. Whatever
// they contain, the copy counts as one of the leader's epoch only after a whole
// snapshot, and every position after it is that of a message that followed the
// position before.
func FuzzFeedOfLeader(f *testing.F) {
	epoch := conclave.Epoch{Term: 3, Seq: 7}
	owner := conclave.NodeID{Name: "session-1", Incarnation: "s"}
	from, now := store.New(time.Second), time.Now()
	from.Serve(100, time.Time{}, now)
	from.SetFollowed(true)
	id, err := conclave.ParseDataInfoID(dataIDAt(1))
	require.NoError(f, err)
	put := func(v int64) {
		from.Write(store.CopyOf(owner, &wirev1.Publisher{Id: "p", DataInfoId: id.String(), Version: v, Values: []string{"v"}}), now)
	}
	put(1)
	marshal := func(events ...*wirev1.ReplicateEvent) (out [][]byte) {
		for _, e := range events {
			e.Slot, e.LeaderEpoch, e.Access = 1, wire.EpochOut(epoch), wirev1.Access_ACCESS_ACCEPT
			b, err := proto.Marshal(e)
			require.NoError(f, err)
			out = append(out, b)
		}
		return out
	}
	whole := marshal(from.Snapshot(from.Position(), now).Messages(1, epoch)...)
	before := from.Position()
	put(2)
	change, _ := from.Changes(before)
	log := marshal(change)
	f.Add(whole[0], whole[len(whole)-1], log[0])
	f.Add(log[0], whole[0], log[0])
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		s, leader := serving(t, epoch)
		r := s.replicas.of(1)
		follower := &puller{
			follows: s.follows, leader: leader, wake: signal.New(),
			retry: map[int]bool{}, reload: map[int]bool{}, differed: map[int]time.Time{},
		}
		for _, b := range [][]byte{first, second, third} {
			var e wirev1.ReplicateEvent
			if proto.Unmarshal(b, &e) != nil {
				return
			}
			copyEpoch, position := r.copyEpoch, r.copyPosition
			follower.apply(&e)
			switch {
			case r.copyEpoch == copyEpoch && r.copyPosition == position:
			case e.GetSnapshotEnd():
				assert.Equal(t, epoch, r.copyEpoch)
			default:
				assert.Equal(t, copyEpoch, r.copyEpoch)
				assert.Equal(t, position, e.GetFrom())
			}
		}
		_, err := s.service.Fetch(t.Context(), connect.NewRequest(&wirev1.FetchRequest{Slots: []*wirev1.FetchSlot{{Slot: 1}}}))
		assert.NoError(t, err)
	})
}
