package devdb

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// accepted is a network of which the connections are given.
type accepted struct {
	net.Listener
	next chan net.Conn
}

func (a accepted) Accept() (net.Conn, error) { return <-a.next, nil }

// from is a connection of a client with an address.
type from struct {
	net.Conn
	ip string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }

// connected returns a function that connects a client of an address, and returns both
// ends.
func connected(t *testing.T) func(ip string) (*socket, net.Conn) {
	l := newListener(accepted{next: make(chan net.Conn, 1)})
	return func(ip string) (*socket, net.Conn) {
		server, remote := net.Pipe()
		l.Listener.(accepted).next <- from{server, ip}
		conn, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { remote.Close() })
		return conn.(*socket), remote
	}
}

func TestLogin_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connect := connected(t)
		silent, _ := connect("10.0.0.1")
		began := time.Now()
		_, err := silent.Read(make([]byte, 4))
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, 5*time.Second, time.Since(began))

		in, remote := connect("10.0.0.1")
		in.login.known = func() bool { return true }
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(remote, strings.Repeat("\xff", 4))
		}()
		n, err := in.Read(make([]byte, 4))
		assert.NoError(t, err, "a client that has logged in may be idle, and send large packets")
		assert.Equal(t, 4, n)
	})
}

func TestLogin_PacketsAreSmall(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		fits bool
	}{
		"two small ones":         {"\x02\x00\x00\x01ab\x01\x00\x00\x02c", true},
		"the largest":            {"\x00\x00\x01\x01", true},
		"a larger one":           {"\x01\x00\x01\x01", false},
		"a larger second one":    {"\x01\x00\x00\x01a\xff\xff\xff\x02", false},
		"a beginning":            {"\x01\x00\x01", true},
		"what looks like length": {"\x04\x00\x00\x01\xff\xff\xff\xff", true},
	} {
		whole, pieces := login{}, login{}
		assert.Equal(t, c.fits, whole.fits([]byte(c.sent)), name)
		fits := true
		for i := range len(c.sent) {
			fits = fits && pieces.fits([]byte(c.sent[i:i+1]))
		}
		assert.Equal(t, c.fits, fits, "%s, byte by byte", name)
	}
	connect := connected(t)
	in, remote := connect("10.0.0.1")
	go func() { _, _ = io.WriteString(remote, "\xff\xff\xff\x01") }()
	_, err := in.Read(make([]byte, 4))
	assert.ErrorIs(t, err, io.EOF, "the engine never sees what it announces")
}

func TestLogin_OldestOfAnAddressMakesRoom(t *testing.T) {
	connect := connected(t)
	honest, _ := connect("10.0.0.1")
	first, _ := connect("10.0.0.2")
	second, _ := connect("10.0.0.2")
	for range loginPlaces - 1 {
		connect("10.0.0.2")
	}
	assert.True(t, isClosed(first.closed))
	assert.False(t, isClosed(second.closed))
	assert.False(t, isClosed(honest.closed))
	second.login.known = func() bool { return true }
	assert.True(t, second.loggedIn())
	connect("10.0.0.2")
	connect("10.0.0.2")
	assert.False(t, isClosed(second.closed), "it has logged in")
}
