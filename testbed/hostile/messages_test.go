package hostile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

func compressedBomb(ctx context.Context, t *testing.T, w *target) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(make([]byte, 64<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for _, node := range []string{"session-1", "data-1", "meta-1"} {
		path, header := wirev1connect.NodeServiceHelloProcedure, http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}
		assert.NotEqual(t, http.StatusOK, post(ctx, w.at[node], path, malloryToken, header, bytes.NewReader(packed.Bytes())), node)
	}
	header := http.Header{"Content-Type": {"application/connect+proto"}, "Connect-Content-Encoding": {"gzip"}}
	each(16, func(int) {
		call(ctx, w.at["session-1"], malloryToken, header, bytes.NewReader(enveloped(1, packed.Bytes())))
	})
}

func messagesThatInflate(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	for _, entries := range []int{2_000, 30_000, 60_000} {
		m := &wirev1.ClientMessage{}
		for range entries {
			m.Publishers = append(m.Publishers, &wirev1.Publisher{})
		}
		w.eachStream(ctx, 32, func(_ int, s stream) {
			for range 10 {
				if s.Send(m) != nil {
					return
				}
			}
			_ = s.until(func(m *wirev1.ServerMessage) bool { return len(m.GetRefused()) > 0 }) // or it was ended
		})
	}
}

func giantFields(ctx context.Context, t *testing.T, w *target) {
	long := strings.Repeat("x", 3<<20)
	ctx, end := lasting(ctx, 5*time.Second)
	defer end()
	each(8, func(i int) {
		c := newConn(malloryToken)
		defer c.peers.Close()
		s := c.open(ctx, w.at["session-1"], long)
		err := s.until(func(*wirev1.ServerMessage) bool { return true })
		assert.Error(t, err, "a hello with a giant name")
		s.cancel()
		s = c.open(ctx, w.at["session-1"], name(i))
		defer s.cancel()
		refused := 0
		for _, m := range []*wirev1.ClientMessage{
			{Publishers: []*wirev1.Publisher{{Id: long, DataInfoId: dataInfo("x"), Version: 1}}},
			{Publishers: []*wirev1.Publisher{{Id: "x", DataInfoId: long, Version: 1}}},
			{Publishers: []*wirev1.Publisher{{Id: "x", DataInfoId: dataInfo("x"), Version: 1, Values: []string{long}}}},
			{Subscribe: []*wirev1.Subscription{{Id: long, DataInfoId: dataInfo("x")}}},
			{Watch: []string{long}, Unwatch: []string{long}, Unsubscribe: []string{long}},
		} {
			if s.Send(m) != nil {
				return
			}
		}
		_ = s.until(func(m *wirev1.ServerMessage) bool {
			for _, r := range m.GetRefused() {
				refused++
				assert.LessOrEqual(t, len(r.GetId())+len(r.GetMessage()), 1024, "a refusal repeats little")
			}
			return refused >= 4
		})
	})
}

func messagesInPart(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	body := append([]byte{0, 0, 0x3f, 0xff, 0xff}, make([]byte, 4<<20-16)...)
	each(250, func(int) {
		read, write := io.Pipe()
		defer write.Close()
		go func() {
			_, _ = write.Write(body) // until the end of the request
		}()
		header := http.Header{"Content-Type": {"application/connect+proto"}}
		call(ctx, w.at["session-1"], malloryToken, header, read)
	})
}

func bodiesInPart(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 4*time.Second)
	defer end()
	each(90, func(i int) {
		read, write := io.Pipe()
		defer write.Close()
		go func() {
			_, _ = write.Write(make([]byte, 15<<20)) // until the end of the request
		}()
		node := []string{"meta-1", "data-1", "session-1"}[i%3]
		header := http.Header{"Content-Type": {"application/proto"}}
		assert.NotEqual(t, http.StatusOK, post(ctx, w.at[node], wirev1connect.NodeServiceHelloProcedure, "", header, read))
	})
}
