package zklatch

import (
	"context"
	"errors"
	"sync/atomic"

	"conclave/internal/join"
)

// ErrStarted is returned when a latch or a selector is started a second time, or
// after Close.
var ErrStarted = errors.New("already started or closed")

// loop is the goroutine of a latch or a selector.
type loop struct {
	ctx     context.Context // ends with end, or with the Client
	stop    context.CancelFunc
	started atomic.Bool
	running join.Group
}

func (c *Client) loop() *loop {
	l := &loop{}
	l.ctx, l.stop = context.WithCancel(c.ctx)
	return l
}

// start starts run, which ends with ctx.
func (l *loop) start(run func()) error {
	if l.ctx.Err() != nil || l.started.Swap(true) {
		return ErrStarted
	}
	l.running.Go(run)
	return nil
}

// end ends the goroutine, if there is one, and joins it.
func (l *loop) end() {
	l.stop()
	l.running.Close()
}
