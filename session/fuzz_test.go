package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/internal/signal"
	"conclave/session/registry"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/rights"
	wirev1 "conclave/wire/v1"
)

// FuzzTake gives a session arbitrary messages, which two clients send in turn.
// Whatever they contain, each answer is short, what is accepted can be sent to a
// data node, and nothing is left of clients that have left.
func FuzzTake(f *testing.F) {
	const key = "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
	all := &wirev1.ClientMessage{
		Hello:      &wirev1.ClientHello{Client: "c", LingerMs: 1},
		Publishers: []*wirev1.Publisher{{Id: "p", DataInfoId: key, Version: 1, Values: []string{"v", "w"}}, {}},
		Subscribe:  []*wirev1.Subscription{{Id: "s", DataInfoId: key, Version: 3, Publishers: []uint32{1}}, {Id: "t", DataInfoId: key, Version: 1 << 60}},
		Watch:      []string{"color", "no/id"}, Unwatch: []string{"color", "other"}, Unsubscribe: []string{"t", "x"}, Ping: 4,
	}
	withdrawn := &wirev1.ClientMessage{Publishers: []*wirev1.Publisher{{Id: "p", DataInfoId: key, Version: 2, Withdrawn: true}}, Goodbye: true}
	for _, sent := range [][]*wirev1.ClientMessage{{all}, {all, all}, {all, withdrawn, withdrawn}, {}} {
		var b bytes.Buffer
		for _, m := range sent {
			_, err := protodelim.MarshalTo(&b, m)
			require.NoError(f, err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, messages []byte) {
		config := DefaultConfig()
		config.Node, config.Metas, config.Insecure = conclave.NodeID{Name: "session-1", Incarnation: "i"}, []string{"meta-1:9611"}, true
		s, err := New(config)
		require.NoError(t, err)
		now := time.Now()
		s.registry.Resize(4, now)
		for n := range 4 {
			s.registry.Adopt(n, conclave.Epoch{Term: 1, Seq: 1}, "data-1:9622", now)
		}
		s.clients.refuse("")
		var conns []*connection
		for _, name := range []string{"c", "d"} {
			c := &connection{Owner: &registry.Owner{Client: name, Name: name}, identity: rights.Identity{Right: rights.Operator}, out: &outbox{}, settled: signal.New(), extend: func() {}}
			c.waiting = &backlog[*wirev1.Publisher]{size: sizeOf, own: maxWaiting, intake: admit.New(intakeAll, intakeEach)}
			c.subscribing = &backlog[*wirev1.Subscription]{size: subscriptionSize, intake: admit.New(intakeAll, intakeEach)}
			c.Renew(now, time.Second)
			require.NoError(t, s.clients.admit(c, &wirev1.Welcome{}))
			conns = append(conns, c)
		}
		for i, in := 0, bytes.NewReader(messages); ; i++ {
			var m wirev1.ClientMessage
			if protodelim.UnmarshalFrom(in, &m) != nil {
				break
			}
			conn := conns[i%2]
			s.service.handle(t.Context(), conn, &m)
			for out, _ := conn.out.next(); out != nil; out, _ = conn.out.next() {
				assert.LessOrEqual(t, proto.Size(out), conclave.MaxRequest)
				for _, r := range out.GetRefused() {
					assert.LessOrEqual(t, len(r.GetId())+len(r.GetMessage()), 5*maxNameBytes)
				}
			}
		}
		for n := range 4 {
			for _, class := range registry.Order(0) {
				for _, p := range s.registry.Take(n, "data-1:9622", class, conclave.MaxRequest, 1000, now).Message().GetPuts() {
					err := wire.CheckPublisher(p)
					require.NoError(t, err)
				}
			}
		}
		for _, c := range conns {
			s.service.watches.leave(c)
			c.End()
			s.registry.Withdraw(s.registry.Holdings(c.Owner), 1<<20)
			s.clients.release(c, s.registry.Release(c.Owner), true, now)
			assert.Zero(t, s.registry.LiveOf(c.Owner))
		}
	})
}
