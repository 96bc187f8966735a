package certs

import (
	"bytes"
	"io"
	"net"
)

// plainRefuser is a listener whose connections answer HTTP without TLS with a reason.
type plainRefuser struct{ net.Listener }

func (l plainRefuser) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &firstRead{Conn: conn}, nil
}

// firstRead looks at the first bytes of a connection. Read is called by one
// goroutine at a time.
type firstRead struct {
	net.Conn
	done bool
}

func (c *firstRead) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.done && n > 0 {
		c.done = true
		switch {
		case bytes.HasPrefix(p[:n], []byte("PRI *")):
			_, _ = c.Write(goAway("this port uses TLS: connect with TLS (--tls-dir, client.Config.TLS)"))
		case p[0] >= 'A' && p[0] <= 'Z': // a method of HTTP/1; TLS begins with 22
			_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nthis port uses TLS: call https://\n")
		}
	}
	return n, err
}

// goAway returns the two frames with which an HTTP/2 server refuses a
// connection: empty SETTINGS, and GOAWAY with the code INADEQUATE_SECURITY and a
// reason (RFC 9113, section 6.8).
func goAway(reason string) []byte {
	const settings, goaway, inadequateSecurity = 4, 7, 12
	frames := []byte{0, 0, 0, settings, 0, 0, 0, 0, 0}
	frames = append(frames, 0, 0, byte(8+len(reason)), goaway, 0, 0, 0, 0, 0)
	frames = append(frames, 0, 0, 0, 0, 0, 0, 0, inadequateSecurity)
	return append(frames, reason...)
}
