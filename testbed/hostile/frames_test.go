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
