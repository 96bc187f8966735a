package serve

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/internal/certs"
)

// endless is a connection that always has something to read.
type endless struct {
	net.Conn
	address string
}

func (c *endless) Read(p []byte) (int, error)  { return len(p), nil }
func (c *endless) Write(p []byte) (int, error) { return len(p), nil }
func (c *endless) Close() error                { return nil }
func (c *endless) RemoteAddr() net.Addr        { return named(c.address) }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// handed is a listener that accepts what it is sent.
type handed chan net.Conn

func (h handed) Accept() (net.Conn, error) {
	c, ok := <-h
	if !ok {
		return nil, io.EOF
	}
	return c, nil
}
func (handed) Close() error   { return nil }
func (handed) Addr() net.Addr { return named("") }

func accepted(t *testing.T, p *pace, address string) net.Conn {
	t.Helper()
	queue := make(handed, 1)
	queue <- &endless{address: address}
	c, err := p.listener(queue).Accept()
	require.NoError(t, err)
	return c
}

// readFor reads pieces of so many bytes for a second, and returns how many calls it made.
// Each takes a microsecond.
func readFor(t *testing.T, c net.Conn, size int) (calls int) {
	t.Helper()
	piece := make([]byte, size)
	for begun := time.Now(); time.Since(begun) < time.Second; calls++ {
		_, err := c.Read(piece)
		require.NoError(t, err)
		time.Sleep(time.Microsecond)
	}
	return calls
}

func newPace() *pace { return &pace{by: map[string]*addressPace{}} }

func TestPace_BoundsSmallFramesOfOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		c := accepted(t, p, "mallory:1")
		defer c.Close()
		assert.InDelta(t, callsOfOne+burstOfOne, readFor(t, c, 10), 2*askAfter)
		assert.Positive(t, p.paused.Load())
	})
}

// Header fields are cheap to send, by an index of one byte, and not to decode.
func TestPace_HeaderFieldsCount(t *testing.T) {
	header := func(kind byte, size int) []byte {
		return []byte{byte(size >> 16), byte(size >> 8), byte(size), kind, 0, 0, 0, 0, 1}
	}
	assert.EqualValues(t, 64, fields(header(1, 64*fieldSize)))
	assert.EqualValues(t, 512, fields(header(9, 16<<10)))
	assert.Zero(t, fields(header(0, 16<<10)), "data")
	assert.Zero(t, fields(header(1, 16<<10)[:8]), "not a header")
	assert.Less(t, fields(header(1, 1<<24-1)), int64(burstOfAll))
}

func TestPace_DoesNotPauseWhatIsSentMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		c := accepted(t, p, "honest:1")
		defer c.Close()
		for range 4000 { // 64 MiB in a second, in frames of 16 KiB
			_, _ = c.Read(make([]byte, 9))
			_, _ = c.Read(make([]byte, 16<<10))
			time.Sleep(250 * time.Microsecond)
		}
		for range 100_000 { // what is written pays for the frames that acknowledge it
			_, _ = c.Write(make([]byte, 4<<10))
			for range 4 {
				_, _ = c.Read(make([]byte, 13))
			}
		}
		assert.Zero(t, p.paused.Load())
	})
}

// A hundred connections of an address have no more than the address, another address
// does not notice, and nothing is kept of those that end.
func TestPace_BoundsAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var mu sync.Mutex
		total := 0
		var reading sync.WaitGroup
		for i := range 100 {
			c := accepted(t, p, "mallory:"+strconv.Itoa(i))
			reading.Go(func() {
				defer c.Close()
				calls := readFor(t, c, 10)
				mu.Lock()
				defer mu.Unlock()
				total += calls
			})
		}
		other := accepted(t, p, "honest:1")
		assert.InDelta(t, callsOfOne+burstOfOne, readFor(t, other, 10), 2*askAfter)
		reading.Wait()
		assert.InDelta(t, burstOfAll+callsOfAll, total, 3*100*askAfter, "a burst, and a second")
		other.Close()
		assert.Empty(t, p.by)
	})
}

// What an address owes, by thousands of connections that read or were closed, delays the
// next one by no more than the longest pause, and one with few calls not at all: else
// peers would take each other for dead.
func TestPace_DelaysNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		light := accepted(t, p, "mallory:0")
		defer light.Close()
		var reading sync.WaitGroup
		for i := range 3000 {
			c := accepted(t, p, "mallory:"+strconv.Itoa(i))
			reading.Go(func() {
				defer c.Close()
				for begun := time.Now(); time.Since(begun) < 12*time.Second; time.Sleep(100 * time.Millisecond) {
					for range askAfter {
						_, _ = c.Read(make([]byte, 10))
					}
				}
			})
		}
		slowest := time.Duration(0)
		busy := accepted(t, p, "mallory:9999")
		defer busy.Close()
		for range 12 * 19 {
			begun := time.Now()
			_, _ = light.Read(make([]byte, 10))
			assert.Zero(t, time.Since(begun), "20 calls a second are not many")
			for range 3 {
				begun = time.Now()
				_, _ = busy.Read(make([]byte, 10))
				slowest = max(slowest, time.Since(begun))
			}
			time.Sleep(time.Second / 19)
		}
		reading.Wait()
		assert.Equal(t, longest, slowest)
	})
}

func TestPace_CloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := accepted(t, newPace(), "mallory:1")
		address := c.(*pacedConn).address.limit
		address.ReserveN(time.Now(), burstOfAll)
		address.ReserveN(time.Now(), burstOfAll)
		begun := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { c.Close() })
		for range askAfter {
			_, _ = c.Read(make([]byte, 10))
		}
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
	})
}

// The server of net/http reads a frame by calls that the pace sees, with TLS and without.
func TestPace_SeesFramesOfTheServer(t *testing.T) {
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			n := startTLS(t, secured)
			conn, err := net.Dial("tcp", n.address)
			require.NoError(t, err)
			defer conn.Close()
			if secured {
				set, err := certs.Load(filepath.Join(n.dir, "client"), "", func(error) {})
				require.NoError(t, err)
				c := set.Client()
				c.ServerName, c.NextProtos = "127.0.0.1", []string{"h2"}
				conn = tls.Client(conn, c)
			}
			_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, conn) }()                                                            // ends with the connection
			_, err = io.WriteString(conn, strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", 2*burstOfOne)) // pings
			require.NoError(t, err)
			assert.Eventually(t, func() bool { return n.paused() > 0 }, 20*time.Second, time.Millisecond)
		})
	}
}
