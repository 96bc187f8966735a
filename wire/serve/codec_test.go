package serve

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	wirev1 "conclave/wire/v1"
)

func TestClientCodec_FieldsAreBoundedBeforeTheyAreRead(t *testing.T) {
	read := func(b []byte) error { return clientCodec{}.Unmarshal(b, &wirev1.ClientMessage{}) }
	empty := func(n int) []byte { return []byte(strings.Repeat("\x22\x00", n)) } // unsubscriptions without an id
	require.NoError(t, read(empty(maxFields)))
	assert.ErrorContains(t, read(empty(maxFields+1)), "more than 65536 fields")

	values, err := proto.Marshal(&wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Values: make([]string, maxFields)}}})
	require.NoError(t, err)
	assert.ErrorContains(t, read(values), "more than 65536 fields", "those of a registration count")
	assert.ErrorContains(t, read(append(empty(maxFields-1), values...)), "more than 65536 fields", "all together")

	// Registrations without a field take two bytes each, and two hundred in memory.
	hollow := func(n int) []byte { return []byte(strings.Repeat("\x12\x00", n)) }
	assert.NoError(t, read(hollow(someMessages)))
	assert.ErrorContains(t, read(hollow(2000)), "more than one message in each 16 bytes")
	small := &wirev1.ClientMessage{}
	for range 10_000 {
		small.Publishers = append(small.Publishers, &wirev1.Publisher{Id: "p", DataInfoId: "a#@#b#@#c", Version: 1})
	}
	least, err := proto.Marshal(small)
	require.NoError(t, err)
	assert.NoError(t, read(least), "the smallest that make sense")

	long, err := proto.Marshal(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", Publishers: make([]uint32, 100_000)}}})
	require.NoError(t, err)
	assert.NoError(t, read(long), "a packed list is one field")
}

func TestClientCodec_JSONIsBoundedByItsSize(t *testing.T) {
	var m wirev1.ClientMessage
	require.NoError(t, clientJSON{}.Unmarshal([]byte(`{"ping":"7","later":1}`), &m))
	assert.Equal(t, uint64(7), m.Ping)
	assert.ErrorContains(t, clientJSON{}.Unmarshal([]byte(`{"publishers":[`+strings.Repeat("{},", maxJSON)+`{}]}`), &m), "the limit is 16384")
}

// FuzzClientCodec compares the count with what protobuf reads: what it refuses is
// refused, and what is counted is not less than what is made.
func FuzzClientCodec(f *testing.F) {
	for _, m := range []*wirev1.ClientMessage{
		{Hello: &wirev1.ClientHello{Client: "c", Name: "n", LingerMs: 1}},
		{Publishers: []*wirev1.Publisher{{Id: "p", DataInfoId: "a#b#c", Version: 1, Values: []string{"v", "w"}}, {}}},
		{Subscribe: []*wirev1.Subscription{{Id: "s", Publishers: []uint32{1, 2}}}, Unsubscribe: []string{"x"}, Ping: 9, Goodbye: true},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{0x13, 0x12, 0x00, 0x14})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wirev1.ClientMessage
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		count := fieldCount{fields: maxFields, messages: maxFields}
		err := count.take(b, m.ProtoReflect().Descriptor())
		left := count.fields
		if len(b) <= maxFields { // a field takes a byte at least
			require.NoError(t, err)
		}
		made := len(m.Publishers) + len(m.Subscribe) + len(m.Unsubscribe) + len(m.Watch) + len(m.Unwatch)
		for _, p := range m.Publishers {
			made += len(p.Values)
		}
		if err == nil {
			require.LessOrEqual(t, made, maxFields-left)
		}
	})
}

// What was encoded before is in a message as JSON, too.
func TestClientCodec_JSONHasWhatWasEncodedBefore(t *testing.T) {
	datum, err := proto.Marshal(&wirev1.Push{Datum: &wirev1.Datum{DataInfoId: "x", Values: []string{"a"}}})
	require.NoError(t, err)
	push := &wirev1.Push{Hash: 7}
	push.ProtoReflect().SetUnknown(datum)
	b, err := clientJSON{}.Marshal(&wirev1.ServerMessage{Pushes: []*wirev1.Push{push}})
	require.NoError(t, err)
	var read wirev1.ServerMessage
	require.NoError(t, clientJSON{}.Unmarshal(b, &read))
	assert.Equal(t, []string{"a"}, read.GetPushes()[0].GetDatum().GetValues())
}
