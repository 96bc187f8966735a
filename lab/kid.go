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
)

// kid is a candidate's process, as the lab sees it.
type kid struct {
	name, who string // the seat; who is name@incarnation
	cmd       *exec.Cmd
	in        io.WriteCloser
	tell      func(*kid, Event)
	over      chan struct{} // closed when the process has ended and all it said was heard

	asked uint64 // questions so far, by the goroutine that plays

	mu      sync.Mutex // guards what follows
	ready   bool
	cost    Event  // the last answer
	parting *Event // what it said unasked, when it stopped
	why     string
	stderr
}

// stderr keeps the end of what a process complains about.
type stderr struct{ text []byte }

// spawn starts a candidate. tell hears each of its events, one after the other.
func spawn(cmd *exec.Cmd, seat Seat, tell func(*kid, Event)) (*kid, error) {
	k := &kid{name: seat.Name, who: seat.ID().String(), cmd: cmd, tell: tell, over: make(chan struct{})}
	first, err := json.Marshal(seat)
	if err != nil {
		return nil, err
	}
	if k.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = complaints{k}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a candidate: %w", err)
	}
	go k.listen(out) // joined by end
	if _, err := k.in.Write(append(first, '\n')); err != nil {
		k.end()
		return nil, fmt.Errorf("seat a candidate: %w", err)
	}
	return k, nil
}

// complaints keeps the last lines of a process's standard error.
type complaints struct{ k *kid }

func (c complaints) Write(p []byte) (int, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	c.k.text = append(c.k.text, p...)
	if n := len(c.k.text); n > 1000 {
		c.k.text = c.k.text[n-1000:]
	}
	return len(p), nil
}

// listen hears the process out, and then waits for its end.
func (k *kid) listen(out io.Reader) {
	defer close(k.over)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // a line that was cut off by kill -9
		}
		k.mu.Lock()
		switch e.What {
		case "ready":
			k.ready = true
		case "cost":
			if k.cost = e; e.Ask == 0 {
				k.parting = &e
			}
		case "failed":
			k.why = e.Why
		}
		k.mu.Unlock()
		k.tell(k, e)
	}
	_ = k.cmd.Wait() // killed, or not: it has ended
}

// ended says whether the process is gone.
func (k *kid) ended() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// signal sends one; a process that is gone already is none of its concern.
func (k *kid) signal(s syscall.Signal) { _ = k.cmd.Process.Signal(s) }

// end kills the process and waits for it.
func (k *kid) end() {
	_ = k.cmd.Process.Kill() // gone already is fine
	k.in.Close()
	<-k.over
}

// order says a word to the process. A stopped one reads it later.
func (k *kid) order(word string) { _, _ = io.WriteString(k.in, word+"\n") }

// isReady says whether it takes part.
func (k *kid) isReady() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ready
}

// complaint is why it does not run, for an error.
func (k *kid) complaint() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != "" {
		return k.why
	}
	return string(k.text)
}

// How long an answer is waited for: while somebody takes over, when each statement
// counts, and when nothing hurries.
const (
	hasty   = 200 * time.Millisecond
	patient = 5 * time.Second
)

// ask asks what was spent and written so far, and waits a while for the answer to this
// very question: that to an earlier one may come late. Who has stopped has said it.
func (k *kid) ask(ctx context.Context, limit time.Duration) (Event, bool) {
	k.asked++
	k.order(fmt.Sprintf("cost %d", k.asked))
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		k.mu.Lock()
		answer := k.cost
		k.mu.Unlock()
		if answer.Ask == k.asked {
			return answer, true
		}
		select {
		case <-look.C:
		case <-k.over:
			return k.last()
		case <-late.C:
			return Event{}, false
		case <-ctx.Done():
			return Event{}, false
		}
	}
}

// last is what a process that is gone said at the end, if it could.
func (k *kid) last() (Event, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parting == nil {
		return Event{}, false
	}
	return *k.parting, true
}
