package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// A Read returns a message with its prefix, or what the buffer holds of it, and all Reads
// return what was written.
func TestWholeMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 40)).Draw(t, "messages")
		buffer := make([]byte, rapid.IntRange(prefixBytes, 60).Draw(t, "buffer"))
		from, to := io.Pipe()
		var written bytes.Buffer
		reads := 0
		for _, m := range messages {
			written.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))))
			written.Write(m)
			reads += max(1, (prefixBytes+len(m)+len(buffer)-1)/len(buffer))
		}
		go func() {
			for _, m := range messages {
				_, _ = to.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))))
				_, _ = to.Write(m)
			}
			to.Close()
		}()
		var read bytes.Buffer
		body := &wholeMessages{ReadCloser: from}
		for ; ; reads-- {
			n, err := body.Read(buffer)
			read.Write(buffer[:n])
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		assert.Equal(t, written.String(), read.String())
		assert.Zero(t, reads)
	})
}

// counting counts what is written to the connections that are dialled.
type counting struct {
	Network
	writes atomic.Int64
}

func (c *counting) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.Network.DialContext(ctx, network, address)
	return countedConn{conn, &c.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// echo answers each Write.
type echo struct {
	wirev1connect.UnimplementedDataServiceHandler
}

func (echo) Writes(_ context.Context, stream *connect.BidiStream[wirev1.WriteRequest, wirev1.WriteResponse]) error {
	for {
		if _, err := stream.Receive(); err != nil {
			return nil
		}
		if err := stream.Send(&wirev1.WriteResponse{}); err != nil {
			return err
		}
	}
}

// A message on an open stream is sent by one system call.
func TestPeers_SendAMessageAtOnce(t *testing.T) {
	network := pipes{make(chan net.Conn)}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(wirev1connect.NewDataServiceHandler(echo{}))
	server := &http.Server{Protocols: protocols, Handler: mux}
	go func() { _ = server.Serve(network) }()
	defer server.Close()
	counted := &counting{Network: network}
	peers := NewPeers(counted, &Interceptor{}, PingTimeout)
	defer peers.Close()
	stream := peers.Data("node:1").Writes(t.Context())
	exchange := func() {
		require.NoError(t, stream.Send(&wirev1.WriteRequest{Number: 1}))
		_, err := stream.Receive()
		require.NoError(t, err)
	}
	exchange()
	before := counted.writes.Load()
	for range 20 {
		exchange()
	}
	assert.LessOrEqual(t, counted.writes.Load()-before, int64(20+1), "one more acknowledges the settings")
}
