package hostile_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"

	"conclave/testbed/load"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// thousandsOfSubscriptions subscribes to twice what a client may, eight times. Its pings
// wait behind that, so that on a busy machine the session may end a stream as silent.
func thousandsOfSubscriptions(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 20*time.Second)
	defer end()
	var refused atomic.Int64
	w.eachStream(ctx, 8, func(i int, s stream) {
		go func() { // ends with the stream
			for part := range 10 {
				m := &wirev1.ClientMessage{Ping: uint64(part + 1)}
				for n := range 1000 {
					id := fmt.Sprint(i, "-", part, "-", n)
					m.Subscribe = append(m.Subscribe, &wirev1.Subscription{Id: id, DataInfoId: dataInfo(id), Publishers: make([]uint32, 100)})
				}
				if s.Send(m) != nil {
					return
				}
			}
			for { // its subscriptions wait for longer than a client may be silent
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return
				}
				if s.Send(&wirev1.ClientMessage{Ping: 11}) != nil {
					return
				}
			}
		}()
		seen := 0
		err := s.until(func(m *wirev1.ServerMessage) bool {
			for _, r := range m.GetRefused() {
				assert.Equal(t, string(wire.CodeLimitReached), r.GetCode())
				seen++
			}
			return seen >= 5000
		})
		if err != nil {
			t.Logf("%d of 5000 are refused: %v", seen, err)
		}
		refused.Add(int64(seen))
	})
	assert.Positive(t, refused.Load(), "no client has reached the limit")
}

func subscribingInTurn(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	w.eachStream(ctx, 16, func(i int, s stream) {
		for n := 0; ctx.Err() == nil; n++ {
			if s.Send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: fmt.Sprint(n), DataInfoId: dataInfo("large")}}}) != nil {
				return
			}
			if s.Send(&wirev1.ClientMessage{Unsubscribe: []string{fmt.Sprint(n)}, Ping: 1}) != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// readers subscribe as often as slowReaders, and read. They are few clients, so that the
// session asks none of the honest to move to another one.
func readers(ctx context.Context, _ *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	all := &wirev1.ClientMessage{}
	for n := range 20 {
		all.Subscribe = append(all.Subscribe, &wirev1.Subscription{Id: fmt.Sprint(n), DataInfoId: dataInfo("large")})
	}
	each(10, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		for ctx.Err() == nil {
			s := c.open(ctx, w.at["session-1"], name(i))
			_ = s.Send(all)
			_ = s.until(func(*wirev1.ServerMessage) bool { return false }) // until the end
			s.cancel()
		}
	})
}

func slowReaders(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	each(200, func(i int) {
		c := dial(ctx, w.at["session-1"])
		if c == nil {
			return
		}
		defer c.Close()
		message := func(m *wirev1.ClientMessage) string {
			b, err := proto.Marshal(m)
			assert.NoError(t, err)
			return frame(frameData, 0, 1, string(enveloped(0, b)))
		}
		// A window that has room for a welcome, and not for a list.
		_, _ = io.WriteString(c, preface+settings(4, 4096)+frame(frameHeaders, flagEndHeaders, 1, connectFields(malloryToken))+
			message(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: name(i), Name: name(i)}})+
			message(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: dataInfo("large")}}}))
		for n := uint64(1); ctx.Err() == nil; n++ {
			time.Sleep(500 * time.Millisecond)
			if _, err := io.WriteString(c, message(&wirev1.ClientMessage{Ping: n})); err != nil {
				return
			}
		}
	})
}

func claimedVersions(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	c := newConn(readerToken)
	defer c.peers.Close()
	s := c.open(ctx, w.at["session-1"], "claims")
	defer s.cancel()
	for i, version := range []int64{1 << 52, 1<<53 - 1, math.MaxInt64, -1} {
		_ = s.Send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: fmt.Sprint(i), DataInfoId: dataInfo("honest.0"), Version: version, Hash: 1}}})
	}
	refused := map[string]bool{}
	err := s.until(func(m *wirev1.ServerMessage) bool {
		for _, r := range m.GetRefused() {
			refused[r.GetId()] = true
		}
		return len(refused) == 4
	})
	assert.NoError(t, err, "refused: %v", refused)
}

// subscribingBriefly subscribes to names without end, each for a moment, and may read what
// is pushed.
func subscribingBriefly(to func(id string) string, reads bool) func(context.Context, *testing.T, *target) {
	return func(ctx context.Context, _ *testing.T, w *target) {
		ctx, end := lasting(ctx, 2*time.Second)
		defer end()
		w.eachStream(ctx, 16, func(i int, s stream) {
			if reads {
				go func() { _ = s.until(func(*wirev1.ServerMessage) bool { return false }) }() // ends with the stream
			}
			for n := 0; ctx.Err() == nil; n += 100 {
				m := &wirev1.ClientMessage{Ping: 1}
				for k := range 100 {
					id := fmt.Sprint(i, "-", n+k)
					m.Subscribe = append(m.Subscribe, &wirev1.Subscription{Id: id, DataInfoId: dataInfo(to(id))})
					m.Watch = append(m.Watch, id)
				}
				if s.Send(m) != nil {
					return
				}
				if s.Send(&wirev1.ClientMessage{Unsubscribe: ids(m.Subscribe), Unwatch: m.Watch}) != nil {
					return
				}
			}
		})
	}
}

func strangeName(id string) string { return "strange-" + id }

func honestName(string) string { return load.DataID("honest", 0) }

func ids(of []*wirev1.Subscription) (out []string) {
	for _, s := range of {
		out = append(out, s.GetId())
	}
	return out
}
