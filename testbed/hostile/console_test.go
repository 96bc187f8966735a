package hostile_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// consoleConnections opens more streams than the console has places, and does not read
// them, and connections that send nothing, or half a header.
func consoleConnections(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	beginnings := []string{
		"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "GET / HTTP/1.1\r\nHost: local", preface,
		"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
	}
	var open []net.Conn
	for i := range 2000 {
		if c := dial(ctx, w.at["console"]); c != nil {
			_ = c.(*net.TCPConn).SetReadBuffer(1024) // as little as the kernel allows
			_, _ = io.WriteString(c, beginnings[i%len(beginnings)])
			open = append(open, c)
		}
	}
	t.Logf("%d connections", len(open))
	<-ctx.Done()
	for _, c := range open {
		c.Close()
	}
}

// consoleRequests acts without the cookie, with a wrong link, as a page of another
// origin, with bodies and headers that are too large, and on paths that do not exist.
func consoleRequests(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 1200*time.Millisecond)
	defer end()
	kill := `{"do": "kill", "node": "meta-1"}`
	foreign := http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
	each(12, func(i int) {
		for n := 0; ctx.Err() == nil; n++ {
			path, header, body, want := "/v1/act", http.Header{}, kill, http.StatusForbidden
			switch n % 6 {
			case 1:
				header.Set("Cookie", fmt.Sprintf("conclave-%d-act=%d", i, n))
			case 2:
				header = foreign
			case 3:
				body, want = `{"do": "`+strings.Repeat("k", 1<<20), http.StatusBadRequest
			case 4:
				header.Set("X-Giant", strings.Repeat("h", 1<<20))
				want = http.StatusRequestHeaderFieldsTooLarge
			case 5:
				path, want = fmt.Sprintf("/strange/%d/%d", i, n), http.StatusMethodNotAllowed
			}
			status := post(ctx, w.at["console"], path, "", header, strings.NewReader(body))
			assert.Contains(t, []int{0, want}, status, "%d", n%6)
			c := dial(ctx, w.at["console"])
			if c == nil {
				continue
			}
			_, _ = fmt.Fprintf(c, "GET /open/%d-%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", i, n)
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			answer, _ := io.ReadAll(c)
			assert.NotContains(t, string(answer), "Set-Cookie")
			c.Close()
		}
	})
}
