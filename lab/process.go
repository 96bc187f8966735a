package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"conclave/internal/sleep"
)

// process is a candidate's process, from the lab's side. The other side is
// environment.
type process struct {
	name    string // the candidate's
	id      string // name@incarnation
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	onEvent func(*process, Event)
	ended   chan struct{} // closed when the process has ended and onEvent has had its last event

	mu      sync.Mutex // guards what follows
	ready   bool
	cost    Event  // the last answer to a cost query
	failure string // why it failed, if it said so
	stderr  []byte // the end of its standard error
}

// startProcess starts a candidate. onEvent is called for each of its events,
// one after the other.
func startProcess(cmd *exec.Cmd, spec Spec, onEvent func(*process, Event)) (*process, error) {
	p := &process{name: spec.Name, id: spec.ID().String(), cmd: cmd, onEvent: onEvent, ended: make(chan struct{})}
	first, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = stderrTail{p}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a candidate: %w", err)
	}
	go p.readEvents(out) // joined by kill
	if _, err := p.stdin.Write(append(first, '\n')); err != nil {
		p.kill()
		return nil, fmt.Errorf("send a candidate its spec: %w", err)
	}
	return p, nil
}

// stderrTail keeps the end of a process's standard error.
type stderrTail struct{ p *process }

func (t stderrTail) Write(b []byte) (int, error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.stderr = append(t.p.stderr, b...)
	if n := len(t.p.stderr); n > 1000 {
		t.p.stderr = t.p.stderr[n-1000:]
	}
	return len(b), nil
}

// readEvents reads the process's events until its output ends, and then waits
// for the process.
func (p *process) readEvents(out io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // a line that was cut off by kill -9
		}
		p.mu.Lock()
		switch e.What {
		case "ready":
			p.ready = true
		case "cost":
			p.cost = e
		case "failed":
			p.failure = e.Why
		}
		p.mu.Unlock()
		p.onEvent(p, e)
	}
	_ = p.cmd.Wait() // an exit code other than 0 is expected of a killed process
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal. It does nothing if the process has ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill kills the process, if it still runs, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.stdin.Close()
	<-p.ended
}

// send sends a command. A stopped process reads it when it continues.
func (p *process) send(command string) { _, _ = io.WriteString(p.stdin, command+"\n") }

// isReady reports whether the candidate takes part in the election.
func (p *process) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// failureText returns why the process does not take part, for an error.
func (p *process) failureText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != "" {
		return p.failure
	}
	return string(p.stderr)
}

// The time-outs of a cost query.
const (
	queryDuringTakeover = 200 * time.Millisecond // every statement counts: a late answer would include others
	queryWhileCalm      = 5 * time.Second
)

// queryCost asks the process for its cost so far, and waits for an answer that is not
// older than the query. ok is false if there is none within the limit.
func (p *process) queryCost(ctx context.Context, limit time.Duration) (cost Event, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asked := stamp(time.Now())
	p.send("cost")
	for sleep.For(ctx, time.Millisecond) == nil && !p.hasEnded() {
		p.mu.Lock()
		cost = p.cost
		p.mu.Unlock()
		if cost.At >= asked {
			return cost, true
		}
	}
	return Event{}, false
}
