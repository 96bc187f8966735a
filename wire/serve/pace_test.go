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

func TestPace_BoundsSmallFramesOfOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{by: map[string]*addressPace{}}
		c := accepted(t, p, "mallory:1")
		defer c.Close()
		assert.InDelta(t, callsOfOne+burstOfOne, readFor(t, c, 9), 2*payAtOnce)
		assert.Positive(t, p.paused.Load())
	})
}

func TestPace_NeverPausesBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{by: map[string]*addressPace{}}
		c := accepted(t, p, "honest:1")
		defer c.Close()
		assert.Greater(t, readFor(t, c, 2*paidBy), 900_000, "what is read pays")
		var writing sync.WaitGroup
		stop := make(chan struct{})
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Microsecond):
					_, _ = c.Write(make([]byte, 20*paidBy))
				}
			}
		})
		assert.Greater(t, readFor(t, c, 13), 900_000, "what is written pays for the frames that acknowledge it")
		close(stop)
		writing.Wait()
		assert.Zero(t, p.paused.Load())
	})
}

// A hundred connections of an address have no more than the address, another address
// and a connection with few calls do not notice, and nothing is kept of those that end.
func TestPace_BoundsAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{by: map[string]*addressPace{}}
		var mu sync.Mutex
		total := 0
		var reading sync.WaitGroup
		for i := range 100 {
			c := accepted(t, p, "mallory:"+strconv.Itoa(i))
			reading.Go(func() {
				defer c.Close()
				calls := readFor(t, c, 9)
				mu.Lock()
				defer mu.Unlock()
				total += calls
			})
		}
		light := accepted(t, p, "mallory:100")
		for range payAtOnce / 2 {
			begun := time.Now()
			_, err := light.Read(make([]byte, 9))
			require.NoError(t, err)
			assert.Zero(t, time.Since(begun))
			time.Sleep(5 * time.Millisecond)
		}
		other := accepted(t, p, "honest:1")
		assert.InDelta(t, callsOfOne+burstOfOne, readFor(t, other, 9), 2*payAtOnce)
		reading.Wait()
		assert.InDelta(t, burstOfAll+callsOfAll, total, 2*100*payAtOnce, "a burst, and a second")
		light.Close()
		other.Close()
		assert.Empty(t, p.by)
	})
}

func TestPace_CloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{by: map[string]*addressPace{}}
		first := accepted(t, p, "mallory:1")
		first.(*pacedConn).address.limit.ReserveN(time.Now(), burstOfAll)
		for range 10 {
			first.(*pacedConn).address.limit.ReserveN(time.Now(), burstOfAll) // two seconds of the address
		}
		begun := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { first.Close() })
		for range payAtOnce {
			_, err := first.Read(make([]byte, 9))
			require.NoError(t, err)
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
