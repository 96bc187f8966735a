package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"conclave/internal/signal"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/live"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
	"conclave/testbed/simulated/wiretap"
)

const (
	quantum     = time.Millisecond      // by which time moves; it ends at a multiple of it
	fineQuantum = 10 * time.Microsecond // the same of a step to the next message
	entriesKept = 60_000                // of the history that is checked
	closeWithin = time.Minute
	leaseOf     = testbed.DefaultLease
)

// Goal is what a step leads to.
type Goal string

// The goals.
const (
	Message   Goal = "message"   // between two hosts of the cluster
	Election  Goal = "election"  // a meta leads a new term
	Violation Goal = "violation" // a checker finds a broken promise
)

// Pace is how time moves, and where it is.
type Pace struct {
	Speed   float64 `json:"speed"` // virtual seconds in a second; Fast: as many as can be
	Paused  bool    `json:"paused"`
	Step    Goal    `json:"step,omitempty"`    // the goal of a step that has not ended
	Replays bool    `json:"replays,omitempty"` // the start's moment is not reached yet
	Reached string  `json:"reached,omitempty"` // what the last step has led to
	AtMs    float64 `json:"atMs"`              // virtual time since the start
	Start   string  `json:"start"`             // this moment as a Start
	HeapMiB int     `json:"heapMiB"`
}

// check is a check that a goroutine of the bubble waits for.
type check struct {
	run  func()
	must bool
}

// World is a console.Source: a cluster in a bubble, whose virtual time the caller moves.
// Its methods may be called from any goroutine outside of bubbles.
type World struct {
	start  Start
	bubble func(func())
	jobs   chan func(*inside) // made outside of the bubble, like all channels here: while a goroutine of the bubble waits for one, virtual time stands still
	over   chan struct{}      // closed when no job is taken any more
	checks chan check
	done   chan struct{}    // a check has ended, or was left out
	wake   signal.Signal    // for drive
	still  signal.Broadcast // time stands still
	tap    func(simnet.Sent)

	mu     sync.Mutex // guards the rest
	source *live.Source
	now    time.Duration // virtual time since the start
	acts   []Act         // that were done, and those of the start that are still to be done
	pace   Pace
	goal   Goal
	limit  time.Duration // when the goal is given up
}

var _ console.Source = (*World)(nil)

// New returns a world that Run starts. bubble runs a function in a bubble of
// testing/synctest, and returns when that has ended; it is called once.
func New(start Start, bubble func(func())) *World {
	// What is initialized at its first use is used before there is a bubble: so a run does
	// not depend on what the page has asked for before.
	_, _ = json.Marshal(struct {
		console.State
		Events []console.Event
	}{})
	return &World{
		start: start, bubble: bubble, jobs: make(chan func(*inside)), over: make(chan struct{}), checks: make(chan check), done: make(chan struct{}),
		wake: signal.New(), acts: start.Acts, pace: Pace{Speed: 1},
	}
}

// inside is what belongs to the bubble.
type inside struct {
	w       *World
	cluster *simulated.Cluster
	source  *live.Source
	began   time.Time
	next    int           // of World.acts: the first that is not done
	fine    time.Duration // until then a quantum is a fineQuantum

	mu    sync.Mutex // guards the rest
	names *wiretap.Tap
	heard string // the last message since it was asked for
	led   string // the last election, in the same way
}

// now returns the virtual time since the start.
func (b *inside) now() time.Duration { return time.Since(b.began) }

// in runs a job between two quanta, and reports whether it could.
func (w *World) in(job func(*inside)) bool {
	done := make(chan struct{})
	select {
	case w.jobs <- func(b *inside) { defer close(done); job(b) }:
		<-done
		return true
	case <-w.over:
		return false
	}
}

// advance moves time, and does what is due, until a moment or until the goal is reached,
// which it then describes. After each quantum every goroutine of the bubble waits, so that
// what is done then does not depend on how time was moved until then.
func (b *inside) advance(to time.Duration, goal Goal) (reached string) {
	b.mu.Lock()
	b.heard, b.led = "", ""
	b.mu.Unlock()
	for b.perform(); reached == "" && b.now() < to; reached = b.reached(goal) {
		by := quantum - b.now()%quantum
		if b.now() < b.fine {
			by = min(by, fineQuantum)
		}
		time.Sleep(by)
		synctest.Wait()
		b.perform()
	}
	b.w.mu.Lock()
	b.w.now = b.now()
	b.w.mu.Unlock()
	return reached
}

// reached returns what of a goal was reached in the last quantum; "": nothing.
func (b *inside) reached(goal Goal) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch goal {
	case Message:
		return b.heard
	case Election:
		return b.led
	case Violation:
		if x := b.source.Broken(); x != nil {
			return x.ID + ": " + x.What
		}
	}
	return ""
}

// perform does the acts of the start that are due.
func (b *inside) perform() {
	for {
		b.w.mu.Lock()
		due := b.next < len(b.w.acts) && b.w.acts[b.next].At <= b.now()
		var a Act
		if due {
			a = b.w.acts[b.next]
			b.next++
		}
		b.w.mu.Unlock()
		switch {
		case !due:
			return
		case a.Do == step:
			b.fine, _ = parseSeconds(a.Value) // 0 if it is wrong
		default:
			_ = b.source.Act(context.Background(), a.Request) // as when it was done first, it may be refused
			synctest.Wait()
		}
	}
}

// note adds an act that is being done to those of the start. What was to be done later is
// of another run.
func (b *inside) note(a Act) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.acts = append(b.w.acts[:b.next:b.next], a)
	b.next++
}

// Acts implements console.Source.
func (w *World) Acts() console.Acts { return console.Holder }

// errEnded reports that the cluster is not there.
var errEnded = errors.New("the cluster does not run")

// Explain implements console.Source.
func (w *World) Explain(ctx context.Context, r console.Request) (string, error) {
	w.mu.Lock()
	source := w.source
	w.mu.Unlock()
	if source == nil {
		return "", errEnded
	}
	return source.Explain(ctx, r)
}

// Act implements console.Source.
func (w *World) Act(ctx context.Context, r console.Request) (err error) {
	if _, err := parseAct(0, []string{r.Do, r.Node, r.Peer, r.Value}); err != nil || r.Do == step {
		return fmt.Errorf("%q cannot be done: %w", r.Do, err)
	}
	ran := w.in(func(b *inside) {
		b.note(Act{b.now(), r})
		err = b.source.Act(ctx, r)
		synctest.Wait()
	})
	if !ran {
		return errEnded
	}
	w.wake.Set()
	return err
}
