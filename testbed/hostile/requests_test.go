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

	"conclave/wire"
	"conclave/wire/v1/wirev1connect"
)

func unreadAnswers(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	paths := map[string][]string{
		"session-1": {"/v1/publishers", "/v1/clients", "/v1/subscribers", "/metrics", "/v1/events"},
		"data-1":    {"/v1/datums", "/v1/slots", "/metrics"},
		"meta-1":    {"/v1/elections", "/v1/slots", "/v1/nodes", "/metrics", "/v1/events"},
	}
	each(300, func(i int) {
		node := []string{"session-1", "data-1", "meta-1"}[i%3]
		c := dial(ctx, w.at[node])
		if c == nil {
			return
		}
		defer c.Close()
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(1024) // as little as the kernel allows
		}
		path := paths[node][i/3%len(paths[node])]
		for ctx.Err() == nil {
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // the node has stopped reading by then
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, readerToken); err != nil {
				<-ctx.Done()
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func foreignOrigins(ctx context.Context, t *testing.T, w *target) {
	header := http.Header{"Origin": {"http://evil.example"}, "Content-Type": {"text/plain"}, "Sec-Fetch-Site": {"cross-site"}}
	for node, paths := range map[string][]string{
		"meta-1":    {"/v1/leader/resign", "/v1/election/quit", "/v1/stopping"},
		"data-1":    {"/v1/stopping", wirev1connect.DataServiceFinishProcedure},
		"session-1": {"/v1/stopping", wirev1connect.ClientServicePingProcedure},
	} {
		for _, path := range paths {
			for _, token := range []string{"", operatorToken} {
				assert.Equal(t, http.StatusForbidden, post(ctx, w.at[node], path, token, header, strings.NewReader("{}")), "%s %s", node, path)
			}
		}
	}
}

// strangeRequests names hosts, paths and methods that no process has, each once: none
// of them may become a series of a metric, or lines of a log without end.
func strangeRequests(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	nodes := []string{"meta-1", "data-1", "session-1", "session-2"}
	long := "/" + strings.Repeat("p", 900<<10)
	each(16, func(i int) {
		for n := 0; ctx.Err() == nil; n++ {
			c := dial(ctx, w.at[nodes[i%4]])
			if c == nil {
				return
			}
			path := fmt.Sprintf("/v1/strange/%d/%d", i, n)
			switch {
			case n == 0:
				path = long
			case n%3 == 0:
				path = fmt.Sprintf("/conclave.v1.Strange%d/Call%d", i, n)
			}
			_, _ = fmt.Fprintf(c, "M%dX%d %s HTTP/1.1\r\nHost: h%d-%d.example\r\nConnection: close\r\n\r\n", i, n, path, i, n)
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			answer, _ := io.ReadAll(c)
			assert.False(t, strings.HasPrefix(string(answer), "HTTP/1.1 2"), "%.100s", answer)
			assert.Less(t, len(answer), 4096, "an answer repeats little")
			c.Close()
		}
	})
}

// strangeQueries asks for pages of which the limits and keys cannot be.
func strangeQueries(ctx context.Context, _ *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	paths := map[string][]string{
		"session-1": {"/v1/publishers", "/v1/clients", "/v1/subscribers", "/v1/events"},
		"data-1":    {"/v1/datums", "/v1/slots"},
		"meta-1":    {"/v1/elections", "/v1/slots", "/v1/nodes", "/v1/blacklist", "/v1/config", "/v1/events"},
	}
	queries := []string{
		"limit=-1", "limit=0", "limit=9223372036854775807", "limit=18446744073709551616", "limit=1e300", "limit=NaN", "limit=%00", "limit=1&limit=2",
		"limit=9223372036854775807&after=" + strings.Repeat("k", 60<<10), "after=%ff%fe%00", "after=" + strings.Repeat("%00", 1000), "since=-1", "since=9223372036854775807", "n=1&&&;;=&=",
	}
	transport := &http.Transport{DialContext: dialer().DialContext, MaxIdleConnsPerHost: 16}
	defer transport.CloseIdleConnections()
	each(12, func(i int) {
		node := []string{"session-1", "data-1", "meta-1"}[i%3]
		for n := 0; ctx.Err() == nil; n++ {
			path := paths[node][n%len(paths[node])]
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.at[node]+path+"?"+queries[n/len(paths[node])%len(queries)], nil)
			if err != nil {
				continue
			}
			wire.SetToken(req.Header, readerToken)
			if res, err := transport.RoundTrip(req); err == nil {
				_, _ = io.CopyN(io.Discard, res.Body, 1<<20)
				res.Body.Close()
			}
		}
	})
}
