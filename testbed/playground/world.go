package playground

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"conclave/internal/signal"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/live"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
)

const (
	// quantum is by how much time moves; it ends at a multiple of it. A step to the next message
	// shows 2.8 messages on average, 1.6 of one instant; with 200 µs it would be 4.2, an answer
	// beside its request. This costs about a tenth of the speed when time is as fast as it can.
	quantum      = 100 * time.Microsecond
	entriesKept  = 60_000 // of the history that is checked
	messagesKept = 20_000 // for Why
	checkShare   = 20     // of the time, one part is used for checks
)

// Fast is the speed of a run that does not wait.
const Fast = 0

// Goal is what a step leads to.
type Goal string

// The goals.
const (
	Message   Goal = "message"   // between two hosts of the cluster
	Election  Goal = "election"  // a meta leads a new term
	Violation Goal = "violation" // a checker finds a broken promise
	moment    Goal = "moment"    // that of the start; it is no goal of a viewer
)

// limits are how long a step may take, in virtual time.
var limits = map[Goal]time.Duration{Message: time.Second, Election: time.Minute, Violation: time.Minute}

// Pace is how time moves, and where it is.
type Pace struct {
	Speed   float64 `json:"speed"` // virtual seconds in a second; Fast: as many as can be
	Paused  bool    `json:"paused"`
	Step    Goal    `json:"step,omitempty"`    // the goal of a step that has not ended
	Reached string  `json:"reached,omitempty"` // what the last step has led to
	AtMs    float64 `json:"atMs"`              // virtual time since the start
	Start   string  `json:"start"`             // this moment as a Start
	HeapMiB int     `json:"heapMiB"`
}

// World is a console.Source: a cluster in a bubble, whose virtual time the caller moves.
// Its methods may be called from any goroutine outside of bubbles.
type World struct {
	start  Start
	bubble func(func())
	jobs   chan func(*inside) // made outside of the bubble, like all channels here: while a goroutine of the bubble waits for one, virtual time is stopped
	checks chan check
	done   chan struct{}     // a check has ended, or was left out
	wake   signal.Signal     // for drive
	tap    func(simnet.Sent) // nil, but in tests, like idle
	idle   func()            // called when time is stopped until something is asked for

	mu    sync.Mutex    // guards the rest
	now   time.Duration // virtual time since the start
	acts  []Act         // that were done, and those of the start that are still to be done
	pace  Pace
	limit time.Duration // when the goal of a step is given up
}

// New returns a world that Run starts. bubble runs a function in a bubble of
// testing/synctest, and returns when that has ended; it is called once.
func New(start Start, bubble func(func())) *World {
	// What is initialized at its first use is used before there is a bubble: so a run does
	// not depend on what the page has asked for before.
	_, _ = json.Marshal(struct {
		console.State
		Events []console.Event
	}{})
	pace := Pace{Speed: 1}
	if start.Moment > 0 {
		pace.Step, pace.Paused = moment, true
	}
	return &World{
		start: start, bubble: bubble, jobs: make(chan func(*inside)), checks: make(chan check), done: make(chan struct{}),
		wake: signal.New(), acts: start.Acts, pace: pace, limit: start.Moment,
	}
}

// inside is what belongs to the bubble.
type inside struct {
	w       *World
	cluster *simulated.Cluster
	source  *live.Source
	passed  *simulated.Recording // the newest messages
	nodes   []string
	began   time.Time
	next    int // of World.acts: the first that is not done

	mu    sync.Mutex // guards the rest
	heard int        // how many messages there were when a goal was asked for
	led   string     // the last election since then
}

// play is the bubble's first goroutine.
func (w *World) play(hub *console.Hub) error {
	simulated.SeedBubble(w.start.Seed)
	b := &inside{w: w, began: time.Now(), passed: &simulated.Recording{Without: watcher, Keep: messagesKept}}
	b.cluster = simulated.New(simulated.Options{Tap: w.tap, Recording: b.passed})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	size := testbed.Size{Seed: w.start.Seed, Metas: w.start.Metas, Sessions: w.start.Sessions, Datas: w.start.Datas, Lease: testbed.DefaultLease}.WithDefaults()
	b.nodes = size.Nodes()
	web := &http.Client{}
	b.source = live.New(live.Config{
		Title: fmt.Sprintf("a cluster in this page, seed %d", w.start.Seed), HTTP: web, Cluster: b.cluster, Ends: true, Aside: w.aside, Entries: entriesKept,
		Settings:  live.Settings{Replicas: size.Replicas, Takeover: size.Takeover, Lease: size.Lease, NodeLease: size.Lease},
		Processes: live.Known(b.cluster.Statuses, web),
	})
	if err := b.cluster.Open(ctx, size, trace.NewGate(b.claim)); err != nil {
		panic(err) // a Start has no size that could not be started
	}
	transport := &http.Transport{DialContext: b.cluster.Dial(watcher)}
	web.Transport = transport
	var shown sync.WaitGroup
	shown.Go(func() { _ = b.source.Run(ctx, hub) }) // nothing is left to heal: the cluster ends with it
	synctest.Wait()
	for job := range w.jobs {
		if job == nil {
			break
		}
		job(b)
	}
	stop()
	shown.Wait()
	transport.CloseIdleConnections()
	return b.cluster.Close(ctx)
}

// watcher is the host of the console, whose messages are no part of the cluster's.
const watcher = "console"

// claim takes an event of a node.
func (b *inside) claim(c trace.Claim) {
	if c.Kind == trace.Led {
		b.mu.Lock()
		b.led = fmt.Sprintf("%s leads term %d", c.Node.Name, c.Term)
		b.mu.Unlock()
	}
	b.source.Claim(c)
}

// now returns the virtual time since the start.
func (b *inside) now() time.Duration { return time.Since(b.began) }

// in runs a job between two quanta. It needs a Run that has not ended.
func (w *World) in(job func(*inside)) {
	done := make(chan struct{})
	w.jobs <- func(b *inside) { defer close(done); job(b) }
	<-done
}

// advance moves time, and does what is due, until a moment or until the goal is reached,
// which it then describes. After each quantum every goroutine of the bubble waits, so that
// what is done then does not depend on how time was moved until then.
func (b *inside) advance(to time.Duration, goal Goal) (reached string) {
	b.mu.Lock()
	b.heard, _ = b.passed.Newest()
	b.led = ""
	b.mu.Unlock()
	for b.perform(); reached == "" && b.now() < to; reached = b.reached(goal) {
		time.Sleep(quantum - b.now()%quantum)
		synctest.Wait()
		b.perform()
	}
	b.w.mu.Lock()
	b.w.now = b.now()
	b.w.mu.Unlock()
	return reached
}

// perform does the acts of the start that are due.
func (b *inside) perform() {
	for b.next < len(b.w.acts) && b.w.acts[b.next].At <= b.now() { // without a lock: only this goroutine changes them
		b.next++
		_ = b.act(context.Background(), b.w.acts[b.next-1].Request) // as when it was done first, it may be refused
		synctest.Wait()
	}
}

// without is the request that takes a guard out: after it, no check is left out.
const without = "without"

// act does what a viewer or the start asks for; the node "leader" is the one that leads then.
// Two actions are not offered by the console:
//
//	without  from now on the guard Value is missing: there is one, "write"
//	hold     Node waits whenever it reaches the point Peer (package trace), until it is killed or all is healed
func (b *inside) act(ctx context.Context, r console.Request) error {
	if r.Node == "leader" {
		r.Node = b.cluster.Observe(ctx).Leader
	}
	switch point := trace.Kind(r.Peer); {
	case r.Do == without && r.Value == "write":
		return b.source.Inject(testbed.Action{Verb: testbed.Unguard})
	case r.Do == "hold" && r.Value == "" && slices.Contains(b.nodes, r.Node) && slices.Contains(trace.Points(), point):
		return b.source.Inject(testbed.Action{Verb: testbed.Hold, Node: r.Node, Point: point})
	}
	return b.source.Act(ctx, r)
}

// note adds an act that is being done to those of the start. What was to be done later is
// of another run.
func (b *inside) note(a Act) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.acts = append(b.w.acts[:b.next:b.next], a)
	b.next++
}

// reached returns what of a goal was reached in the last quantum; "": nothing.
func (b *inside) reached(goal Goal) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch goal {
	case Message:
		if n, what := b.passed.Newest(); n > b.heard {
			return what
		}
	case Election:
		return b.led
	case Violation:
		if x := b.source.Broken(); x != nil {
			return x.ID + ": " + x.What
		}
	}
	return ""
}

// check is a check that a goroutine of the bubble waits for.
type check struct {
	run  func()
	must bool
}

// aside implements live.Config.Aside.
func (w *World) aside(run func(), must bool) {
	w.checks <- check{run, must}
	<-w.done
}

// check runs the checks, outside of the bubble: there time is real, so that their share of
// it can be bounded, and they draw nothing from what is random in the bubble.
func (w *World) check() {
	var next time.Time
	for c := range w.checks {
		w.mu.Lock()
		must := c.must || w.pace.Step == Violation || slices.ContainsFunc(w.acts, func(a Act) bool { return a.Do == without })
		w.mu.Unlock()
		if began := time.Now(); must || began.After(next) {
			c.run()
			next = time.Now().Add(checkShare * time.Since(began))
		}
		w.done <- struct{}{}
	}
}

// Acts implements console.Source.
func (w *World) Acts() console.Acts { return console.Holder }

// Explain implements console.Source.
func (w *World) Explain(ctx context.Context, r console.Request) (says string, err error) {
	w.in(func(b *inside) { w.aside(func() { says, err = b.source.Explain(ctx, r) }, true) })
	return says, err
}

// Act implements console.Source.
func (w *World) Act(ctx context.Context, r console.Request) (err error) {
	if _, err := parseAct(0, []string{r.Do, r.Node, r.Peer, r.Value}); err != nil {
		return err
	}
	w.in(func(b *inside) {
		b.note(Act{b.now(), r})
		err = b.act(ctx, r)
		synctest.Wait()
	})
	w.wake.Set()
	return err
}
