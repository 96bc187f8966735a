package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// FuzzCheckPublisher: what is accepted is within the limits, and is the same after
// it was sent on.
func FuzzCheckPublisher(f *testing.F) {
	for _, p := range []*wirev1.Publisher{
		{},
		{Id: "p", DataInfoId: "a#@#b#@#c", Version: 1, Values: []string{"v", ""}},
		{Id: "p", DataInfoId: "a#@#b#@#c", Version: 2, Withdrawn: true, Values: []string{"v"}},
		{Id: "p", DataInfoId: "a#@#b#@#c", Version: -1},
	} {
		b, err := proto.Marshal(p)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in wirev1.Publisher
		if proto.Unmarshal(b, &in) != nil {
			return
		}
		if CheckPublisher(&in) != nil {
			return
		}
		data, err := conclave.ParseDataInfoID(in.DataInfoId)
		require.NoError(t, err)
		assert.Equal(t, data.String(), in.DataInfoId)
		require.NoError(t, conclave.ValidateValues(in.Values))
		assert.True(t, in.Id != "" && len(in.Id) <= 128 && in.Version >= 1 && in.Version <= conclave.MaxVersion)
		assert.False(t, in.Withdrawn && len(in.Values) > 0)
		again := proto.CloneOf(&in)
		require.NoError(t, CheckPublisher(again))
		assert.True(t, proto.Equal(&in, again))
	})
}

// FuzzViewApply gives a view arbitrary states one after another. Whatever they
// contain, no epoch falls, and the table is valid or none.
func FuzzViewApply(f *testing.F) {
	one := conclave.Epoch{Term: 1, Seq: 1}
	a := conclave.NodeID{Name: "data-1", Incarnation: "i"}
	table := slot.Table{Epoch: one, Slots: []slot.Slot{{ID: 0, Phase: slot.Stable, Leader: a, LeaderEpoch: one, VersionBase: conclave.VersionBase}}}
	whole := StateOut(State{
		Table: table, Replicas: 1, Members: Members{Epoch: one, List: []Member{{Node: a, Role: conclave.RoleData, Address: "data-1:9622"}}},
		Blacklist: Blacklist{Epoch: one, Entries: []blacklist.Entry{{Name: "data-2"}}}, Switches: Switches{Epoch: one, List: []Switch{{Key: SwitchArrange, Value: "off"}}},
		Freeze: Freeze{Epoch: one}, Config: ConfigValues{Epoch: one, List: []ConfigValue{{ID: "a", Value: "b"}}},
	}, nil)
	next := table.Slots[0]
	next.LeaderEpoch = conclave.Epoch{Term: 1, Seq: 2}
	delta := &wirev1.State{Table: DeltaOut(table, slot.Table{Epoch: next.LeaderEpoch, Slots: []slot.Slot{next}}, 1)}
	for _, states := range [][]*wirev1.State{{whole}, {whole, delta}, {delta, whole, whole}} {
		var b bytes.Buffer
		for _, s := range states {
			_, err := protodelim.MarshalTo(&b, s)
			require.NoError(f, err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, before := NewView(), State{}
		for in := bytes.NewReader(b); ; {
			var m wirev1.State
			if protodelim.UnmarshalFrom(in, &m) != nil {
				return
			}
			took, err := v.Apply(&m)
			now := v.State()
			assert.Equal(t, took, !proto.Equal(EpochsOf(before), EpochsOf(now)))
			for _, e := range [][2]conclave.Epoch{
				{before.Table.Epoch, now.Table.Epoch}, {before.Members.Epoch, now.Members.Epoch}, {before.Blacklist.Epoch, now.Blacklist.Epoch},
				{before.Switches.Epoch, now.Switches.Epoch}, {before.Freeze.Epoch, now.Freeze.Epoch}, {before.Config.Epoch, now.Config.Epoch},
			} {
				assert.False(t, e[1].Less(e[0]))
			}
			if err != nil {
				assert.Equal(t, before.Table, now.Table)
			} else if len(now.Table.Slots) > 0 {
				assert.NoError(t, now.Table.Validate())
			}
			before = now
		}
	})
}

// FuzzHeaders gives an interceptor arbitrary headers. Whatever they contain, the
// highest term rises by no more than a jump, and a peer counts as ahead only
// with a table that is newer than this node's.
func FuzzHeaders(f *testing.F) {
	f.Add("7", "7.3", "data-1:9622")
	f.Add("18446744073709551615", "18446744073709551615.1", "x")
	f.Add("-1", ".", "")
	f.Fuzz(func(t *testing.T, term, table, address string) {
		own := conclave.Epoch{Term: 5, Seq: 5}
		view := NewView()
		view.Set(State{Table: slot.Table{Epoch: own}})
		i := &Interceptor{View: view, Fence: &Fence{}, Behind: func(peer string, theirs conclave.Epoch) {
			assert.Equal(t, address, peer)
			assert.True(t, own.Less(theirs))
		}}
		i.Fence.Saw(5)
		h := http.Header{}
		h.Set(headerTerm, term)
		h.Set(headerTable, table)
		h.Set(headerAddress, address)
		if err := i.admit(t.Context(), h); err != nil {
			assert.Contains(t, []Code{CodeBadRequest, CodeStaleEpoch}, CodeOf(err))
			assert.EqualValues(t, 5, i.Fence.Highest())
		}
		assert.GreaterOrEqual(t, i.Fence.Highest(), uint64(5))
		assert.LessOrEqual(t, i.Fence.Highest(), uint64(5)+conclave.MaxJump)
	})
}

// answering is a server that gives every request the same answer.
type answering []byte

func (b answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(b))}, nil
}

// FuzzReadEvents reads an arbitrary answer as a node's event log.
func FuzzReadEvents(f *testing.F) {
	f.Add([]byte("id: 1\ndata: {\"id\":1,\"type\":\"a\",\"epoch\":{\"term\":1,\"seq\":2}}\n\n: beat\n\ndata: {}\n"))
	f.Add([]byte("data: [\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		_ = ReadEvents(ctx, &http.Client{Transport: answering(body)}, "node:1", "", 0, false, func(Event) error { n++; return nil })
		assert.LessOrEqual(t, n, bytes.Count(body, []byte("data: ")))
	})
}
