package memtree_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
	"conclave/lab/article004/zklatch/memtree"
	"conclave/testbed/simulated/simnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw sends and receives packets of the protocol.
type raw struct{ net.Conn }

func (r raw) send(body []byte) {
	packet := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	_, _ = r.Write(packet) // a closed connection shows when it is read
}

// read returns a packet, or nil at the end.
func (r raw) read() []byte {
	var head [4]byte
	if _, err := io.ReadFull(r.Conn, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r.Conn, body); err != nil {
		return nil
	}
	return body
}

// hello is the request for a new or an existing session.
func hello(session uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, 1000)
	b = binary.BigEndian.AppendUint64(b, session)
	return append(binary.BigEndian.AppendUint32(b, 16), make([]byte, 16)...) // the secret
}

// serve runs a test with a server in a bubble.
func serve(t *testing.T, play func(t *testing.T, s *memtree.Server, dial func() raw)) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		listener, err := network.Host("zk").Listen(t.Context(), "tcp", "zk:2181")
		require.NoError(t, err)
		s := memtree.New()
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, listener) }()
		defer func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the server ended with %v", err)
			}
			time.Sleep(time.Minute) // until the sessions end
		}()
		play(t, s, func() raw {
			conn, err := network.Host("client").DialContext(t.Context(), "tcp", "zk:2181")
			require.NoError(t, err)
			t.Cleanup(func() { conn.Close() })
			return raw{conn}
		})
	})
}

// zklatch's tests use this server by the real client. A session that is continued on
// another connection has moved: its last one is closed.
func TestServe_SessionMoves(t *testing.T) {
	serve(t, func(t *testing.T, s *memtree.Server, dial func() raw) {
		first := dial()
		first.send(hello(0))
		answer := first.read()
		require.Len(t, answer, 36)
		id := binary.BigEndian.Uint64(answer[8:])
		assert.NotZero(t, id)

		again := dial()
		again.send(hello(id))
		assert.Equal(t, id, binary.BigEndian.Uint64(again.read()[8:]))
		assert.Nil(t, first.read(), "the session has moved")

		late := dial()
		s.Expire(int64(id))
		late.send(hello(id))
		assert.Zero(t, binary.BigEndian.Uint64(late.read()[8:]), "answered as expired")
		assert.Nil(t, late.read(), "and hung up")
	})
}

// No packet of a client crashes the server.
func FuzzServe(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, '/', 'a'})          // create, cut off
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 14, 255, 255, 255, 255})           // transaction, cut off
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 0, 255}) // watches
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 4, 127, 255, 255, 255, 'x'})       // a path that is too long
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 99})                               // no such request
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, '/', 0, 0, 0, 0})   // delete the root
	f.Add(hello(0), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0})        // delete an empty path: found by fuzzing
	f.Fuzz(func(t *testing.T, first, second []byte) {
		serve(t, func(t *testing.T, s *memtree.Server, dial func() raw) {
			stranger := dial()
			stranger.send(first)
			stranger.send(second)
			synctest.Wait()
			good := dial()
			good.send(hello(0))
			assert.NotZero(t, binary.BigEndian.Uint64(good.read()[8:]))
		})
	})
}
