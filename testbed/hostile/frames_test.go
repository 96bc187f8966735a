package hostile_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func rapidReset(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	each(2, func(int) {
		c := dial(ctx, w.at["session-1"])
		if c == nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := io.WriteString(c, preface+settings())
		for id := uint32(1); err == nil && ctx.Err() == nil; id += 2 {
			_, err = io.WriteString(c, frame(frameHeaders, flagEndHeaders, id, connectFields(malloryToken))+frame(frameReset, 0, id, "\x00\x00\x00\x08"))
		}
	})
}

func headerFloods(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 3*time.Second)
	defer end()
	field := fields("x-filler= " + strings.Repeat("f", 100))
	each(8, func(i int) {
		c := dial(ctx, w.at[[]string{"meta-1", "session-1"}[i%2]])
		if c == nil {
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		var err error
		if i < 4 { // HTTP/1.1
			_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
			for n := 0; err == nil && ctx.Err() == nil; n++ {
				_, err = fmt.Fprintf(c, "X-Filler-%d: %s\r\n", n, strings.Repeat("f", 1000))
			}
			assert.Error(t, err, "a header without end")
			return
		}
		_, err = io.WriteString(c, preface+settings()+frame(frameHeaders, 0, 1, connectFields("")))
		for err == nil && ctx.Err() == nil {
			_, err = io.WriteString(c, frame(frameContinuation, 0, 1, strings.Repeat(field, 100)))
		}
		assert.Error(t, err, "a header without end, in frames")
	})
}

// controlFloods sends frames that a server has to answer, and reads no answer.
func controlFloods(ctx context.Context, _ *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	floods := []string{
		strings.Repeat(settings(), 1000),
		strings.Repeat(settings(1, 4096, 1, 0), 1000), // the size of the header table, up and down
		strings.Repeat(frame(framePing, 0, 0, "12345678"), 1000),
		strings.Repeat(settings(4, 0, 4, 1<<31-1), 1000),
	}
	each(16, func(i int) {
		flood(ctx, w.at[[]string{"meta-1", "data-1", "session-1", "session-2"}[i%4]], "", floods[i/4], false)
	})
}

// emptyFrames sends frames that are valid, have nothing in them and do not end.
func emptyFrames(ctx context.Context, _ *testing.T, w *target) { sendEmptyFrames(ctx, w, 16) }

// emptyFramesByMany sends them over so many connections that each sends few.
func emptyFramesByMany(ctx context.Context, _ *testing.T, w *target) { sendEmptyFrames(ctx, w, 400) }

func sendEmptyFrames(ctx context.Context, w *target, connections int) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	open := frame(frameHeaders, flagEndHeaders, 1, connectFields(malloryToken))
	floods := [][2]string{
		{frame(frameHeaders, 0, 1, connectFields("")), strings.Repeat(frame(frameContinuation, 0, 1, ""), 1000)},
		{open, strings.Repeat(frame(frameData, 0, 1, ""), 1000)},
		{open, strings.Repeat(frame(frameWindowUpdate, 0, 1, "\x00\x00\x00\x01"), 1000)},
		{open, strings.Repeat(frame(frameData, 0, 1, string(enveloped(0, nil))), 1000)}, // messages without a field
	}
	each(connections, func(i int) {
		f := floods[i/4%len(floods)]
		flood(ctx, w.at[[]string{"session-1", "session-2"}[i%2]], f[0], f[1], true)
	})
}

// flood sends first, and then more without end, by one connection after the other,
// until ctx ends.
func flood(ctx context.Context, address, first, more string, reads bool) {
	for ctx.Err() == nil {
		c := dial(ctx, address)
		if c == nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		if reads {
			go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
		}
		_, err := io.WriteString(c, preface+settings()+first)
		for err == nil {
			_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			_, err = io.WriteString(c, more)
		}
		stop()
		c.Close()
	}
}
