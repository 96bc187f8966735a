package serve_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/simulated/simnet"
)

// A body that needs no token is small, and each one arrives in time: what is sent in
// part is not kept.
func TestBodies_AreBoundedInBytesAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		n, stop := start(t, network, "a", "")
		defer stop()
		dial := func(path, header, body string) net.Conn {
			conn, err := network.Host("b").DialContext(t.Context(), "tcp", n.address)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.WriteString(conn, fmt.Sprintf("POST /conclave.v1.NodeService/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/proto\r\n%s\r\n\r\n%s", path, header, body))
			require.NoError(t, err)
			return conn
		}
		answer := func(conn net.Conn) string {
			defer conn.Close()
			text, _ := io.ReadAll(conn) // whether it ends with an error is up to the server
			return string(text)
		}
		assert.Contains(t, answer(dial("Hello", "Content-Length: 65537", "")), "413 ")
		for header, body := range map[string]string{
			"Content-Length: 17000000":   strings.Repeat("x", 17_000_000), // the rest is not read
			"Content-Length: 8000000":    strings.Repeat("x", 8_000_000),
			"Transfer-Encoding: chunked": fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 8_000_000, strings.Repeat("x", 8_000_000)),
		} {
			conn := dial("Announce", header, "")
			for i := range 4 { // slowly
				time.Sleep(time.Second)
				_, err := io.WriteString(conn, body[i*len(body)/4:(i+1)*len(body)/4])
				require.NoError(t, err)
			}
			assert.Regexp(t, "^HTTP/1.1 4", answer(conn), "no client is cut off before it reads why: %s", header)
		}
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 65537, strings.Repeat("x", 65537))
		assert.NotContains(t, answer(dial("Hello", "Transfer-Encoding: chunked", chunk+"0\r\n\r\n")), "200 OK")
		assert.Contains(t, answer(dial("Hello", "Content-Length: 0", "")), "200 OK")

		secured, end := start(t, network, "secured", "secret")
		defer end()
		n.address, secured.address = secured.address, n.address
		conn, sent := dial("Announce", "Content-Length: 4000000", ""), 0
		for err := error(nil); err == nil && sent < 40; sent++ {
			_, err = io.WriteString(conn, strings.Repeat("x", 100_000))
			time.Sleep(time.Second / 4)
		}
		assert.Less(t, sent, 10, "of those without the right nothing is discarded")
		conn.Close()
		n.address = secured.address

		began := time.Now()
		assert.Contains(t, answer(dial("Announce", "Content-Length: 8000000\r\nExpect: 100-continue", "")), "413 ")
		assert.Less(t, time.Since(began), time.Second, "a client that asks is answered before it sends")

		began = time.Now()
		assert.NotContains(t, answer(dial("Announce", "Content-Length: 100", "\x08")), "200 OK")
		assert.Equal(t, 10*time.Second, time.Since(began).Round(time.Second))
	})
}
