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
	flood := []string{
		strings.Repeat(settings(), 1000),
		strings.Repeat(settings(1, 4096, 1, 0), 1000), // the size of the header table, up and down
		strings.Repeat(frame(framePing, 0, 0, "12345678"), 1000),
		strings.Repeat(settings(4, 0, 4, 1<<31-1), 1000),
	}
	each(16, func(i int) {
		for ctx.Err() == nil {
			c := dial(ctx, w.at[[]string{"meta-1", "data-1", "session-1", "session-2"}[i%4]])
			if c == nil {
				return
			}
			_, err := io.WriteString(c, preface+settings())
			for err == nil && ctx.Err() == nil {
				_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
				_, err = io.WriteString(c, flood[i/4])
			}
			c.Close()
		}
	})
}

// emptyFrames sends frames that are valid, have nothing in them and do not end.
func emptyFrames(ctx context.Context, _ *testing.T, w *target) {
	ctx, end := lasting(ctx, 2*time.Second)
	defer end()
	open := frame(frameHeaders, flagEndHeaders, 1, connectFields(malloryToken))
	flood := [][2]string{
		{frame(frameHeaders, 0, 1, connectFields("")), strings.Repeat(frame(frameContinuation, 0, 1, ""), 1000)},
		{open, strings.Repeat(frame(frameData, 0, 1, ""), 1000)},
		{open, strings.Repeat(frame(frameWindowUpdate, 0, 1, "\x00\x00\x00\x01"), 1000)},
		{open, strings.Repeat(frame(frameData, 0, 1, string(enveloped(0, nil))), 1000)}, // messages without a field
	}
	each(16, func(i int) {
		for ctx.Err() == nil {
			c := dial(ctx, w.at[[]string{"session-1", "session-2"}[i%2]])
			if c == nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
			_, err := io.WriteString(c, preface+settings()+flood[i/4][0])
			for err == nil && ctx.Err() == nil {
				_, err = io.WriteString(c, flood[i/4][1])
			}
			c.Close()
		}
	})
}
