package inprocess

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stopWithin limits a graceful stop, as the programs' --stop-timeout does.
const stopWithin = time.Minute

// Process is a server from its start to its end. All methods may be called from any
// goroutine.
type Process struct {
	Server Server

	alive context.Context // ends when it is killed, or has stopped
	end   context.CancelCauseFunc
	done  chan struct{} // closed when Run has returned
	err   error         // what Run returned; valid after done

	mu       sync.Mutex // guards asked, killed and the start of a stop
	asked    bool
	killed   bool
	stopping sync.WaitGroup // grows only while killed is false
}

// errStopped is the cause with which a completed stop ends what has not ended by it.
var errStopped = errors.New("the server has stopped")

// Start runs a server. ended, if not nil, is called when Run has returned, before Done is
// closed.
func Start(s Server, ended func()) *Process {
	p := &Process{Server: s, done: make(chan struct{})}
	p.alive, p.end = context.WithCancelCause(context.Background())
	go func() { // ends with Kill or Stop
		defer close(p.done)
		if p.err = s.Run(p.alive); errors.Is(p.err, context.Canceled) && errors.Is(context.Cause(p.alive), errStopped) {
			p.err = nil // it was stopped before it served: a meta waits for its database
		}
		if ended != nil {
			ended()
		}
	}()
	return p
}

// Done is closed when the server has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the server has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns how the server has ended: nil after a graceful stop, context.Canceled if it
// was killed. It is valid after Done.
func (p *Process) Err() error { return p.err }

// Kill ends the server as kill -9 does, also while it stops, and returns when all its
// goroutines have ended.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.end(nil)
	<-p.done
	p.stopping.Wait()
}

// Stop begins a graceful stop, as SIGTERM does, and returns at once. It takes at most a
// minute. late, if not nil, gets the error of one that was not completed.
func (p *Process) Stop(late func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	if p.killed {
		return
	}
	p.stopping.Go(func() {
		ctx, cancel := context.WithTimeout(p.alive, stopWithin)
		defer cancel()
		err := p.Server.Shutdown(ctx)
		if err == nil {
			p.end(errStopped)
		} else if p.end(nil); late != nil {
			late(err)
		}
		<-p.done
	})
}

// Asked reports whether Stop was called.
func (p *Process) Asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}
