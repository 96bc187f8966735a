package data

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/data/store"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

const valuesKey = "svc#@#I#@#G"

// copyOfLost is a registration as a session that is lost has written it.
func copyOfLost(id string, version int64, values ...string) *wirev1.Publisher {
	return &wirev1.Publisher{Id: id, DataInfoId: valuesKey, Version: version, Values: values}
}

// holding returns a slot that this node serves at an epoch, with copies.
func holding(t *testing.T, epoch conclave.Epoch, copies ...*wirev1.Publisher) *replica {
	r := &replica{id: 3, state: slot.Serving, epoch: epoch, store: store.New(time.Minute)}
	for _, m := range copies {
		require.NoError(t, wire.CheckPublisher(m))
		r.store.Write(store.CopyOf(conclave.NodeID{Name: "lost", Incarnation: "i"}, m), time.Now())
	}
	return r
}

// ask asks a slot for values at an epoch, with room for so many bytes.
func ask(r *replica, epoch conclave.Epoch, room int, digests ...*wirev1.PublisherDigest) *wirev1.FoundSlot {
	return r.values(&wirev1.ValuesSlot{Slot: 3, LeaderEpoch: wire.EpochOut(epoch), Digests: digests}, &room)
}

// What is found is of the registration and the version that are named, and has the
// hash. A slot that is migrating answers; one at another epoch does not.
func TestValues_FindsWhatHasTheHash(t *testing.T) {
	epoch := conclave.Epoch{Term: 2, Seq: 5}
	one, other := copyOfLost("one", 4, "a", "b"), copyOfLost("other", 1, "c")
	withdrawn := &wirev1.Publisher{Id: "gone", DataInfoId: valuesKey, Version: 2, Withdrawn: true}
	r := holding(t, epoch, one, other, withdrawn)

	asked := []*wirev1.PublisherDigest{
		wire.PublisherDigestOf(one),
		wire.PublisherDigestOf(copyOfLost("one", 3, "a", "b")),
		wire.PublisherDigestOf(copyOfLost("one", 4, "a", "x")),
		wire.PublisherDigestOf(copyOfLost("one", 5, "a", "b")),
		wire.PublisherDigestOf(copyOfLost("two", 4, "a", "b")),
		wire.PublisherDigestOf(copyOfLost("gone", 2)),
		wire.PublisherDigestOf(other),
	}
	for _, state := range []slot.ReportState{slot.Serving, slot.Migrating} {
		r.state = state
		out := ask(r, epoch, 1000, asked...)
		require.Equal(t, wirev1.Access_ACCESS_ACCEPT, out.GetAccess())
		require.Len(t, out.GetFound(), len(asked))
		for i, f := range out.GetFound() {
			assert.Equal(t, i == 0 || i == 6, f.GetFound(), "%d", i)
		}
		assert.Equal(t, []string{"a", "b"}, out.GetFound()[0].GetValues())
		assert.Equal(t, []string{"c"}, out.GetFound()[6].GetValues())
	}

	older := ask(r, conclave.Epoch{Term: 2, Seq: 4}, 1000, asked...)
	assert.Equal(t, wirev1.Access_ACCESS_MISMATCH, older.GetAccess())
	assert.Empty(t, older.GetFound())
	r.state = slot.Finished
	assert.Equal(t, wirev1.Access_ACCESS_MOVED, ask(r, epoch, 1000, asked...).GetAccess())
}

// Of several owners' copies in one version, the one with the hash is found.
func TestValues_AnyOwnerWillDo(t *testing.T) {
	epoch := conclave.Epoch{Term: 1, Seq: 1}
	r := holding(t, epoch, copyOfLost("one", 1, "a"))
	p := copyOfLost("one", 1, "b")
	require.NoError(t, wire.CheckPublisher(p))
	r.store.Write(store.CopyOf(conclave.NodeID{Name: "alive", Incarnation: "i"}, p), time.Now())
	for _, value := range []string{"a", "b"} {
		out := ask(r, epoch, 1000, wire.PublisherDigestOf(copyOfLost("one", 1, value)))
		assert.Equal(t, []string{value}, out.GetFound()[0].GetValues())
	}
}

// An answer is cut at a size, and a request has a limit.
func TestValues_AreBounded(t *testing.T) {
	epoch := conclave.Epoch{Term: 1, Seq: 1}
	var copies []*wirev1.Publisher
	var digests []*wirev1.PublisherDigest
	for i := range 100 {
		copies = append(copies, copyOfLost(fmt.Sprint(i), 1, strings.Repeat("x", 1000)))
		digests = append(digests, wire.PublisherDigestOf(copies[i]))
	}
	r := holding(t, epoch, copies...)
	assert.Len(t, ask(r, epoch, 9500, digests...).GetFound(), 10)
	assert.Len(t, ask(r, epoch, 1, digests...).GetFound(), 1, "there is progress")

	s := &service{replicas: &replicas{}}
	all := make([]*wirev1.PublisherDigest, valuesDigests+1)
	_, err := s.Values(t.Context(), connect.NewRequest(&wirev1.ValuesRequest{Slots: []*wirev1.ValuesSlot{{Digests: all}}}))
	assert.Equal(t, wire.CodeTooLarge, wire.CodeOf(err))
}

// Whatever a session asks for, what it is given has the hash, of a slot that is
// served at the epoch that it names, and nothing changes.
func FuzzValues(f *testing.F) {
	epoch := conclave.Epoch{Term: 3, Seq: 7}
	has := []*wirev1.Publisher{copyOfLost("one", 1, "a"), copyOfLost("two", 2, "b", "c")}
	request := &wirev1.ValuesRequest{Session: &wirev1.Node{Name: "s", Incarnation: "i"}, Slots: []*wirev1.ValuesSlot{{LeaderEpoch: wire.EpochOut(epoch)}, {Slot: 1}}}
	for _, p := range has {
		request.Slots[0].Digests = append(request.Slots[0].Digests, wire.PublisherDigestOf(p))
	}
	seed, err := proto.Marshal(request)
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var in wirev1.ValuesRequest
		if proto.Unmarshal(b, &in) != nil {
			return
		}
		s, _ := serving(t, epoch)
		r := s.replicas.of(0)
		for _, m := range has {
			require.NoError(t, wire.CheckPublisher(m))
			r.store.Write(store.CopyOf(conclave.NodeID{Name: "lost", Incarnation: "i"}, m), time.Now())
		}
		before := r.store.All()
		res, err := s.service.Values(t.Context(), connect.NewRequest(&in))
		if err != nil {
			return
		}
		for i, slot := range res.Msg.GetSlots() {
			asked := in.GetSlots()[i]
			if slot.GetAccess() != wirev1.Access_ACCESS_ACCEPT {
				assert.Empty(t, slot.GetFound())
				continue
			}
			assert.Equal(t, epoch, wire.EpochIn(asked.GetLeaderEpoch()))
			for n, found := range slot.GetFound() {
				assert.True(t, !found.GetFound() || wire.DigestFits(asked.GetDigests()[n], found.GetValues()))
			}
		}
		assert.Equal(t, before, r.store.All())
	})
}
