package hostile_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// controlRequests sends garbage, half requests, giant lines and bodies to the control
// socket, on many connections. A process of the same user is trusted: it can stop the
// cluster, but none of these may.
func controlRequests(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	giant := strings.Repeat("g", 4<<20)
	beginnings := []string{
		"", "POST /st", "\x00\xff garbage\r\n\r\n", "POST /stop?now=true HTTP/1.1\r\nHost: x\r\n", preface,
		"POST /start/" + giant, "POST /start/x HTTP/1.1\r\nHost: x\r\nX-Giant: " + giant,
		"POST /start/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n" + giant,
		"GET /stop HTTP/1.1\r\nHost: x\r\n\r\n", "POST /start/x HTTP/1.1\r\nHost: x\r\n\r\n", "POST /start/..%2f..%2fmeta-1 HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	each(1000, func(i int) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", w.at["control"])
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, beginnings[i%len(beginnings)])
		<-ctx.Done()
	})
}
