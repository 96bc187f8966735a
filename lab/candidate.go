package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/signal"
	conclavesql "conclave/sql"
)

// Spec is what a candidate's process is to do. It is the first line of its
// standard input.
type Spec struct {
	Rule        string            `json:"rule"`
	Name        string            `json:"name"`
	Incarnation string            `json:"incarnation"`
	Lab         string            `json:"lab"` // the name of the election: of a lock, a row's key or a node's path
	DSN         string            `json:"dsn"`
	From        string            `json:"from"`           // the local address to dial from, by which the network identifies the candidate
	ThroughSQL  map[string]string `json:"throughSQL"`     // where each host of the database is dialled
	ThroughTree string            `json:"throughTree"`    // of ZooKeeper
	Times       Times             `json:"times"`          // the rule's
	Act         time.Duration     `json:"actNanos"`       // between two writes of a leader
	StopLimit   time.Duration     `json:"stopLimitNanos"` // how long a graceful stop may take
}

// ID returns the candidate's id as a node.
func (s Spec) ID() conclave.NodeID {
	return conclave.NodeID{Name: s.Name, Incarnation: s.Incarnation}
}

// Event is a line of a candidate's standard output. Times are on the machine's
// shared clock (see stamp).
type Event struct {
	What  string `json:"what"` // ready, leads, extends, left, wake, refused (a guarded write), cost, failed
	At    int64  `json:"at"`
	Until int64  `json:"until,omitempty"` // of leads and extends: when the leadership ends unless it is extended; 0 if only an event ends it
	Why   string `json:"why,omitempty"`

	Statements uint64 `json:"statements,omitempty"` // of cost: these are totals so far
	Turns      uint64 `json:"turns,omitempty"`
}

// environment is what a rule works with in a candidate's process.
type environment struct {
	Spec
	db             *conclavesql.DB // for the rule's statements
	writes         *conclavesql.DB // for a leader's writes
	perceived      *perceivedLeadership
	address        string // at which peers ask whether this candidate leads
	confirmLeading func(term uint64, lock string) bool
	dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	report         func(Event)
	turns          atomic.Uint64
}

// Candidate is the main function of a candidate's process. It reads a Spec from
// the first line of in, takes part in that election, and executes the commands
// in the lines that follow ("cost", "wake"). When ctx ends it stops
// gracefully; when in ends it crashes.
func Candidate(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no spec on standard input (a candidate is started by `conclave lab elections`)")
	}
	var spec Spec
	if err := json.Unmarshal(lines.Bytes(), &spec); err != nil {
		return fmt.Errorf("parse the candidate's spec: %w", err)
	}
	rule, ok := RuleNamed(spec.Rule)
	if !ok {
		return fmt.Errorf("unknown rule %q in the candidate's spec", spec.Rule)
	}
	env := &environment{Spec: spec, report: newEventWriter(out)}
	err := env.run(ctx, rule, lines)
	if err != nil {
		env.report(Event{What: "failed", At: stamp(time.Now()), Why: err.Error()})
	}
	return err
}

// newEventWriter returns a function that writes events to out, one per line. It
// may be called from any goroutine.
func newEventWriter(out io.Writer) func(Event) {
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(e) // an error means that the lab has ended; then in ends, too
	}
}

// run takes part until ctx or the lines end.
func (env *environment) run(ctx context.Context, rule Rule, lines *bufio.Scanner) error {
	if err := env.connect(); err != nil {
		return err
	}
	defer env.db.Close()
	defer env.writes.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.address = listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(env.serveConfirm), ReadHeaderTimeout: time.Second}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) }) // it ends with Close
	defer group.Wait()
	defer server.Close()

	life, crash := context.WithCancel(context.WithoutCancel(ctx))
	defer crash()
	c, err := rule.start(env)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	group.Go(func() { ended <- c.run(life) })
	group.Go(func() { env.writeWhileLeading(life, c) })
	labEnded := make(chan struct{})
	go func() { // ends with in; it outlives this function only in a process that ends
		defer close(labEnded)
		env.serveCommands(c, lines)
	}()
	env.report(Event{What: "ready", At: stamp(time.Now())})

	select {
	case <-labEnded:
		return nil
	case err := <-ended:
		return fmt.Errorf("%s ended: %w", rule.Name, err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(life, env.StopLimit)
	defer cancel()
	err = c.stop(limited)
	env.perceived.leave("stopped")
	return err
}

// connect prepares the connections to the database, which go through the lab's
// proxies.
func (env *environment) connect() (err error) {
	dialer := &net.Dialer{KeepAlive: 5 * time.Second}
	if env.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(env.From)}
	}
	env.dial = dialer.DialContext
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy := env.ThroughSQL[addr]; proxy != "" {
			network, addr = "tcp", proxy
		}
		return env.dial(ctx, network, addr)
	}
	env.perceived = &perceivedLeadership{report: env.report, began: signal.New()}
	limit := max(env.Times.Beat/2, 50*time.Millisecond)
	if env.db, err = conclavesql.Open(env.DSN, conclavesql.Options{Dial: dial, Deadline: limit}); err != nil {
		return err
	}
	env.writes, err = conclavesql.Open(env.DSN, conclavesql.Options{Dial: dial, Deadline: 500 * time.Millisecond, MaxConns: 1})
	return err
}

// serveConfirm answers a peer that asks whether this candidate leads a term.
func (env *environment) serveConfirm(w http.ResponseWriter, r *http.Request) {
	term, err := strconv.ParseUint(r.FormValue("term"), 10, 64)
	if err != nil || env.confirmLeading == nil {
		http.Error(w, "term is missing or not a number", http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, env.confirmLeading(term, r.FormValue("lock")))
}

// serveCommands executes the lab's commands until there are no more.
func (env *environment) serveCommands(c candidate, lines *bufio.Scanner) {
	for lines.Scan() {
		switch lines.Text() {
		case "cost":
			statements, turns := c.cost()
			env.report(Event{What: "cost", At: stamp(time.Now()), Statements: statements, Turns: turns})
		case "wake":
			c.wake()
		}
	}
}

// writeWhileLeading writes to the store while the candidate believes that it
// leads: at once when a leadership begins, and then at each tick. The write
// follows its check directly; only the kernel can delay it.
func (env *environment) writeWhileLeading(ctx context.Context, c candidate) {
	tick := time.NewTicker(env.Act)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-env.perceived.began.C():
		}
		number, ok := c.leading()
		if !ok {
			continue
		}
		// The database counts the writes that take effect; if none does, the
		// report lists that as a broken promise.
		_, _ = env.writes.Exec(ctx, statement("write"), number, number, env.Lab)
		if c.write != nil {
			if done, err := c.write(ctx, env.writes, number); err == nil && !done {
				env.report(Event{What: "refused", At: stamp(time.Now())})
			}
		}
	}
}
