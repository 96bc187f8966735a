package hostile_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func thousandsOfStreams(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 4*time.Second)
	defer end()
	c := newConn(malloryToken)
	defer c.peers.Close()
	var streams []stream
	for i := range 3000 {
		if ctx.Err() != nil {
			break
		}
		streams = append(streams, c.open(ctx, w.at["session-1"], name(i)))
	}
	t.Logf("%d streams", len(streams))
	<-ctx.Done()
	for _, s := range streams {
		s.cancel()
	}
}

func thousandsOfConnections(ctx context.Context, t *testing.T, w *target) {
	var open []net.Conn
	for range 3000 {
		if c := dial(ctx, w.at["session-1"]); c != nil {
			open = append(open, c)
		}
	}
	// Those beyond the limit are closed at once. The others are closed when no header
	// has come.
	time.Sleep(time.Second)
	closed := 0
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // a connection cannot refuse it
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			closed++
		}
	}
	t.Logf("%d connections, %d closed", len(open), closed)
	assert.GreaterOrEqual(t, closed, len(open)-2000)
	for _, c := range open {
		c.Close()
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // as net returns it
	return ok && e.Timeout()
}

func halfOpen(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	beginnings := []string{
		"", preface, preface + settings(), preface[:10],
		preface + settings() + frame(frameHeaders, 0, 1, connectFields(malloryToken)),              // no end of the headers
		preface + settings(4, 0) + frame(frameHeaders, flagEndHeaders, 1, connectFields("")),       // and no window
		preface + settings(4, 0) + frame(frameHeaders, flagEndHeaders, 1, connectFields("t-shop")), // no hello
		preface + settings() + frame(frameData, 0, 99, "x") + strings.Repeat("\xff", 9),
	}
	each(400, func(i int) {
		node := []string{"meta-1", "data-1", "session-1", "session-2"}[i%4]
		if c := dial(ctx, w.at[node]); c != nil {
			defer c.Close()
			_, _ = io.WriteString(c, beginnings[i/4%len(beginnings)])
			<-ctx.Done()
		}
	})
}

// slowloris sends headers that do not end, a byte each 200 ms.
func slowloris(ctx context.Context, t *testing.T, w *target) {
	const pause = 200 * time.Millisecond
	const most = 4 * int(headerLimit/pause) // of bytes: on a busy machine both sides are late
	var seen endings
	each(400, func(i int) {
		c := dial(ctx, w.at[[]string{"meta-1", "data-1", "session-1", "session-2"}[i%4]])
		if c == nil {
			return
		}
		defer c.Close()
		seen.add(func() bool {
			_, err := io.WriteString(c, "GET /v1/leader HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
			for n := 0; n < most && err == nil; n++ {
				time.Sleep(pause)
				_, err = io.WriteString(c, "s")
			}
			return err != nil
		})
	})
	seen.check(t, 400, "a header")
}

// endings is how long connections lasted until a node has ended them.
type endings struct {
	mu     sync.Mutex // guards the rest
	begun  int
	lasted []time.Duration
}

// add uses a connection; use reports whether the node has ended it.
func (e *endings) add(use func() bool) {
	began := time.Now()
	ended := use()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun++; ended {
		e.lasted = append(e.lasted, time.Since(began))
	}
}

// check asserts that of so many dials most were accepted, that the node has ended every
// connection, and half of them within the limit and what a busy machine adds.
func (e *endings) check(t *testing.T, dials int, what string) {
	assert.Greater(t, e.begun, dials/2, "connections")
	if assert.Len(t, e.lasted, e.begun, "%s takes five seconds at most", what) {
		slices.Sort(e.lasted)
		assert.Less(t, e.lasted[len(e.lasted)/2], headerLimit*3/2, "%s takes five seconds at most", what)
	}
}

// headerLimit is how long a node waits for the end of a header, and for a handshake.
const headerLimit = 5 * time.Second
