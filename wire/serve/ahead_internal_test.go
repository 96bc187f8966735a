package serve

import (
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// countedConn counts the reads of a connection, each of which returns what has come.
type countedConn struct {
	net.Conn
	from  io.Reader
	reads int
}

func (c *countedConn) Read(p []byte) (int, error) {
	c.reads++
	return c.from.Read(p)
}

// What is read ahead is read once, whatever is asked for and however it comes.
func TestPlacedConn_ReadsAllInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "sent")
		from := io.Reader(&source{sent: sent, most: rapid.IntRange(1, 1500).Draw(t, "at once")})
		if rapid.Bool().Draw(t, "the end comes with the last bytes") {
			from = iotest.DataErrReader(from)
		}
		c := &placedConn{Conn: &countedConn{from: from}}
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 1200).Draw(t, "asked"))
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
		}
		assert.Equal(t, string(sent), string(got))
	})
}

// A frame that has come as a whole is one read.
func TestPlacedConn_AFrameIsOneRead(t *testing.T) {
	from := &countedConn{from: &source{sent: make([]byte, 109), most: 109}}
	c := &placedConn{Conn: from}
	for _, n := range []int{9, 100} {
		_, err := io.ReadFull(c, make([]byte, n))
		require.NoError(t, err)
	}
	assert.Equal(t, 1, from.reads)
}

// source is read in pieces of most bytes at most.
type source struct {
	sent []byte
	most int
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.sent) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.sent[:min(s.most, len(s.sent))])
	s.sent = s.sent[n:]
	return n, nil
}
