package client

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"

	"conclave/internal/signal"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// FuzzServerMessage gives a client arbitrary messages of its session. Whatever
// they contain, the version of what a subscriber sees falls only after the
// session has refused the subscription, and what the client sends next is valid.
func FuzzServerMessage(f *testing.F) {
	const key = "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
	push := func(version int64, values ...string) *wirev1.Push {
		return &wirev1.Push{Subscriptions: []string{"s", "x"}, Datum: &wirev1.Datum{DataInfoId: key, Version: version, Values: values}}
	}
	part := func(version int64, at uint32, values ...string) *wirev1.Push {
		p := push(version, values...)
		p.Hash, p.Part = list.ContentHash([]string{"v", "w"}), &wirev1.Part{Values: 2, ValuesAt: at}
		return p
	}
	acks := []*wirev1.Ack{{Id: "p", Version: 1}, {Id: "x", Version: 1 << 60}}
	refused := []*wirev1.Refusal{{Id: "s", Code: string(wire.CodeBadRequest), Message: "start again"}}
	for _, sent := range [][]*wirev1.ServerMessage{
		{{Accepted: acks, Stored: acks, Pushes: []*wirev1.Push{push(3, "v")}}, {Pushes: []*wirev1.Push{push(2, "w"), push(4)}}},
		{{Pushes: []*wirev1.Push{push(3, "v")}}, {Refused: refused, Pushes: []*wirev1.Push{push(1, "w")}}, {Refused: refused}},
		{{Refused: []*wirev1.Refusal{{Id: "p", Code: string(wire.CodeTooLarge)}}, Move: &wirev1.Move{Reason: "r", To: "b:1"}, Sessions: []string{"a:1", ""}}},
		{{Pushes: []*wirev1.Push{part(4, 0, "v"), part(4, 1, "w"), part(5, 1), part(6, 0, "v", "w")}}, {Withheld: refused}},
		{{Config: &wirev1.WatchedValues{Epoch: &wirev1.Epoch{Term: 1}, Values: []*wirev1.WatchedValue{{Id: "color", Set: true, Value: "red"}, {}}}}},
	} {
		var b bytes.Buffer
		for _, m := range sent {
			_, err := protodelim.MarshalTo(&b, m)
			require.NoError(f, err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, messages []byte) {
		c, err := New(Config{Sessions: []string{"a:1"}})
		require.NoError(t, err)
		p, err := c.Publish(t.Context(), "a", []string{"v"})
		require.NoError(t, err)
		s, err := c.Subscribe("a")
		require.NoError(t, err)
		_, err = c.Watch("color")
		require.NoError(t, err)
		delete(c.pubs, p.id)
		delete(c.subs, s.id)
		p.id, s.id = "p", "s"
		c.pubs["p"], c.subs["s"] = p, s
		l := &link{
			client: c, ready: signal.New(), move: make(chan *wirev1.Move, 1), settled: signal.New(), windows: newWindows(time.Second),
			owed: map[*Publication]bool{}, unfit: map[*Subscription]bool{}, arriving: map[*Subscription]*list.Assembly{},
		}
		l.queue(p)
		l.subscribes = []*Subscription{s}
		for in := bytes.NewReader(messages); ; {
			if sent := l.next(); sent != nil {
				for _, out := range sent.GetPublishers() {
					err := wire.CheckPublisher(out)
					require.NoError(t, err)
				}
			}
			var m wirev1.ServerMessage
			if protodelim.UnmarshalFrom(in, &m) != nil {
				return
			}
			before, _ := s.Last()
			restart := false
			for _, r := range m.GetRefused() {
				restart = restart || r.GetId() == "s"
			}
			if l.handle(&m) != nil {
				return
			}
			after, _ := s.Last()
			assert.True(t, restart || after.Version >= before.Version, "%d after %d", after.Version, before.Version)
		}
	})
}
