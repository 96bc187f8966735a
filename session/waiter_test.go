package session_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// frame returns a frame of HTTP/2.
func frame(kind, flags byte, id uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, id), payload...)
}

// A client that waits to be welcomed, and has no room for the message that it waits,
// is given up after sendLimit.
func TestLimits_ClientThatWaitsAndDoesNotReadIsGivenUp(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		conn, err := c.host("unread").DialContext(c.ctx, "tcp", c.sessions["session-1"].server.Address())
		require.NoError(t, err)
		defer conn.Close()
		for i := range 64 { // all places are taken for a tenth of a second
			r := c.raw(fmt.Sprint("c", i), "session-1").hello(fmt.Sprint("c", i))
			defer r.end()
		}
		var fields []byte
		for _, f := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", wirev1connect.ClientServiceConnectProcedure}, {":authority", "localhost"},
			{"content-type", "application/connect+proto"}, {"connect-protocol-version", "1"},
		} {
			fields = append(append(append(fields, 0, byte(len(f[0]))), f[0]...), byte(len(f[1])))
			fields = append(fields, f[1]...)
		}
		hello, err := proto.Marshal(&wirev1.ClientMessage{Hello: &wirev1.ClientHello{Client: "unread", Name: "unread"}})
		require.NoError(t, err)
		hello = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(hello))), hello...)
		began := time.Now()
		_, err = conn.Write(bytes.Join([][]byte{
			[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0}), // streams have a window of 0 bytes
			frame(1, 4, 1, fields), frame(0, 0, 1, hello),
		}, nil))
		require.NoError(t, err)
		for header := make([]byte, 9); ; {
			_, err := io.ReadFull(conn, header)
			require.NoError(t, err)
			payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
			_, err = io.ReadFull(conn, payload)
			require.NoError(t, err)
			if header[3] == 6 && header[4] == 0 { // a ping
				_, err = conn.Write(frame(6, 1, 0, payload))
				require.NoError(t, err)
			}
			if header[3] == 3 { // the stream is reset
				break
			}
			require.Less(t, time.Since(began), time.Minute)
		}
		assert.Equal(t, 30*time.Second, time.Since(began).Round(time.Second))
	})
}
