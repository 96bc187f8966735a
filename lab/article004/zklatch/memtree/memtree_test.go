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
	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
	"conclave/testbed/simulated/simnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zklatch's tree_test.go tests that this tree behaves like ZooKeeper, on both. These tests
// are of what only this one has.

// A session does not end while it is connected. Otherwise it ends exactly at its timeout,
// with its nodes.
func TestSession_EndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memtree.New()
		a, b := s.Connect(time.Second), s.Connect(time.Second)
		defer a.Close()
		defer b.Close()
		_, err := a.Create(t.Context(), "/mine", nil, zklatch.Ephemeral)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, _, gone, err := b.GetW(t.Context(), "/mine")
		require.NoError(t, err, "it is still there")
		cut := time.Now()
		a.Disconnect()
		<-gone
		assert.Equal(t, time.Second, time.Since(cut))
	})
}

// A sweep deletes the containers that were used and are empty now, as ZooKeeper does:
// one that had no child yet stays, and so does every persistent node.
func TestSweep_DeletesEmptyContainers(t *testing.T) {
	s := memtree.New()
	a := s.Connect(time.Second)
	defer a.Close()
	create := func(path string, kind zklatch.Kind) {
		_, err := a.Create(t.Context(), path, nil, kind)
		require.NoError(t, err)
	}
	create("/new", zklatch.Container)
	create("/persistent", zklatch.Persistent)
	create("/persistent/used", zklatch.Container)
	create("/persistent/used/inner", zklatch.Container)
	create("/persistent/used/inner/node", zklatch.Ephemeral)
	assert.Empty(t, s.Sweep())
	_, gone, err := a.ChildrenW(t.Context(), "/persistent/used/inner")
	require.NoError(t, err)
	require.NoError(t, a.Delete(t.Context(), "/persistent/used/inner/node", zklatch.AnyVersion))
	assert.Equal(t, zklatch.ChildrenChanged, (<-gone).Type)
	_, gone, err = a.ChildrenW(t.Context(), "/persistent/used/inner")
	require.NoError(t, err)
	assert.Equal(t, []string{"/persistent/used/inner"}, s.Sweep())
	assert.Equal(t, zklatch.NodeDeleted, (<-gone).Type)
	assert.Equal(t, []string{"/persistent/used"}, s.Sweep())
	assert.Empty(t, s.Sweep())
	names, err := a.Children(t.Context(), "/")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"new", "persistent"}, names)
}

// A fault happens once, at the request that matches.
func TestFaults_HappenOnce(t *testing.T) {
	s := memtree.New()
	a := s.Connect(time.Second)
	defer a.Close()
	s.LoseReply(memtree.Create, "/b")
	s.DropRequest(memtree.Set, "/b")
	assert.Equal(t, 2, s.Faults())
	_, err := a.Create(t.Context(), "/a", nil, zklatch.Persistent)
	require.NoError(t, err)
	_, err = a.Create(t.Context(), "/b", []byte("1"), zklatch.Persistent)
	assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
	_, err = a.Create(t.Context(), "/b", nil, zklatch.Persistent)
	assert.ErrorIs(t, err, zklatch.ErrNodeExists, "it was carried out")
	_, err = a.Set(t.Context(), "/b", []byte("2"), 0)
	assert.ErrorIs(t, err, zklatch.ErrConnectionLost)
	data, _, err := a.Get(t.Context(), "/b")
	require.NoError(t, err)
	assert.Equal(t, "1", string(data), "it was not carried out")
	assert.Zero(t, s.Faults())
	assert.Equal(t, memtree.Counts{Reads: 1, Writes: 3}, s.Counts())
}

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
func hello(session uint64, secret []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, 1000)
	b = binary.BigEndian.AppendUint64(b, session)
	b = binary.BigEndian.AppendUint32(b, uint32(len(secret)))
	return append(b, secret...)
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

// A session can be continued on another connection only with its secret; its last
// connection is closed then.
func TestServe_SessionContinuesWithItsSecret(t *testing.T) {
	serve(t, func(t *testing.T, s *memtree.Server, dial func() raw) {
		first := dial()
		first.send(hello(0, make([]byte, 16)))
		answer := first.read()
		require.Len(t, answer, 36)
		id, secret := binary.BigEndian.Uint64(answer[8:]), answer[20:]
		assert.NotZero(t, id)

		thief := dial()
		thief.send(hello(id, make([]byte, 16)))
		assert.Zero(t, binary.BigEndian.Uint64(thief.read()[8:]), "answered as expired")
		assert.Nil(t, thief.read(), "and hung up on")

		again := dial()
		again.send(hello(id, secret))
		assert.Equal(t, id, binary.BigEndian.Uint64(again.read()[8:]))
		assert.Nil(t, first.read(), "the session has moved")
	})
}

// No packet of a client crashes the server.
func FuzzServe(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, '/', 'a'})          // create, cut off
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 14, 255, 255, 255, 255})           // transaction, cut off
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 0, 255}) // watches
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 4, 127, 255, 255, 255, 'x'})       // a path that is too long
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 99})                               // no such request
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, '/', 0, 0, 0, 0})   // delete the root
	f.Add(hello(0, make([]byte, 16)), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0})        // delete an empty path: found by fuzzing
	f.Fuzz(func(t *testing.T, first, second []byte) {
		serve(t, func(t *testing.T, s *memtree.Server, dial func() raw) {
			stranger := dial()
			stranger.send(first)
			stranger.send(second)
			synctest.Wait()
			good := dial()
			good.send(hello(0, make([]byte, 16)))
			assert.NotZero(t, binary.BigEndian.Uint64(good.read()[8:]))
		})
	})
}
