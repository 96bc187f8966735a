package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/internal/join"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// Scene is a part of the demo, printed and as JSON.
type Scene struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`
	AtMs    int64    `json:"atMs"`
	Figures []Figure `json:"figures"`
	Look    string   `json:"look,omitempty"`
}

// Figure is a line of a scene: what was measured, or what has happened.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

// Config describes a narration.
type Config struct {
	Cluster  testbed.RealCluster
	Scenario scenario.Scenario
	Each     string        // what each node is, such as "a separate process"
	Tool     func() string // the call of the tool with which a user asks this cluster
	Database func() string // the kind of database; "": the embedded one
	Out      io.Writer
}

// Narrator prints a run of the demo. It is a scenario.Narrator, and the
// testbed.Cluster on which the scenario is to be played: it stops the cluster
// gracefully when a run that came to its end closes it.
type Narrator struct {
	testbed.RealCluster
	cfg    Config
	began  time.Time
	scenes []Scene
	left   int            // scenes of the scenario that have not ended
	last   scenario.Scene // that has begun

	mu      sync.Mutex // guards the rest
	clients []testbed.Client
	before  []check.Figure // of all scenes that have ended
	acts    bool           // a scene of the scenario is being played
}

var (
	_ scenario.Narrator = (*Narrator)(nil)
	_ testbed.Cluster   = (*Narrator)(nil)
)

// New begins the narration with the start of the cluster.
func New(c Config) *Narrator {
	n := &Narrator{RealCluster: c.Cluster, cfg: c, began: time.Now()}
	for _, scene := range c.Scenario.Scenes {
		if scene.Title != "" {
			n.left++
		}
	}
	s := c.Scenario.Cluster
	n.begin("START", fmt.Sprintf("%d metas, %d data nodes, %d sessions and a MySQL server, each %s", s.Metas, s.Datas, s.Sessions, c.Each))
	return n
}

// Scenes returns the scenes so far.
func (n *Narrator) Scenes() []Scene { return n.scenes }

func (n *Narrator) say(format string, args ...any) {
	fmt.Fprintln(n.cfg.Out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (n *Narrator) begin(name, what string) {
	at := time.Since(n.began)
	n.scenes = append(n.scenes, Scene{Name: name, What: what, AtMs: at.Milliseconds(), Figures: []Figure{}})
	n.say("\n%5.1f s  %d. %s\n         %s", at.Seconds(), len(n.scenes), name, what)
}

func (n *Narrator) figure(name, value, note string) {
	last := &n.scenes[len(n.scenes)-1]
	last.Figures = append(last.Figures, Figure{name, value, note})
	n.say("         | %-36s %9s   %s", name, value, note)
}

func (n *Narrator) look(where string) {
	n.scenes[len(n.scenes)-1].Look = where
	n.say("         > look at: %s", where)
}

// readyWait bounds the start, which is longer than the metas wait for their
// database (a minute).
const readyWait = 75 * time.Second

// Open starts the cluster and waits until every process is ready.
func (n *Narrator) Open(ctx context.Context, size testbed.Size, gate *trace.Gate) error {
	if err := n.RealCluster.Open(ctx, size, gate); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := n.AwaitReady(ctx); err != nil {
		return err
	}
	n.figure("all processes ready after", ms(time.Since(n.began)), n.cfg.Database())
	n.look("as long as this demo runs, in another terminal: " + n.cfg.Tool() + " events -f")
	return nil
}

// Client implements testbed.Cluster. The clients leave before the cluster stops.
func (n *Narrator) Client(name string) (testbed.Client, error) {
	c, err := n.RealCluster.Client(name)
	if err == nil {
		n.mu.Lock()
		n.clients = append(n.clients, c)
		n.mu.Unlock()
	}
	return c, err
}

// leave closes every client: it withdraws what it has published.
func (n *Narrator) leave(ctx context.Context) error {
	n.mu.Lock()
	all := n.clients
	n.clients = nil
	n.mu.Unlock()
	return errors.Join(join.Map(all, func(c testbed.Client) error { return c.Close(ctx) })...)
}

func (n *Narrator) Begins(s scenario.Scene) {
	n.acts, n.last = true, s
	n.begin(s.Title, strings.Join(strings.Fields(s.About), " "))
}

func (n *Narrator) Did(a testbed.Action, err error) {
	switch {
	case err != nil:
		n.say("         - %s: %v", a, err)
	case n.acts:
		n.say("         - %s", a)
	}
}

func (n *Narrator) Decided(e scenario.Expectation, now testbed.Snapshot, took time.Duration, failure error) {
	name, value, note := strings.TrimSpace(e.What+" "+string(e.Who)), ms(took), e.About()
	switch e.What {
	case "leader", "new leader":
		note = fmt.Sprintf("%s, which leads term %d", now.Leader, now.Term)
	case "even":
		note = spread(now)
	}
	switch {
	case failure != nil:
		value, note = "MISSED", failure.Error()
	case e.For > 0:
		value = e.For.String()
	}
	n.figure(name, value, note)
}

// Ended implements scenario.Narrator. It prints the figures of the scene that
// has ended, and how often a publisher was missing until then.
func (n *Narrator) Ended(soFar func() (*check.History, error)) {
	n.left--
	n.acts = false
	h, err := soFar()
	if err != nil {
		n.say("         - no figures: %v", err)
		return
	}
	now := check.Figures(h, n.cfg.Scenario.Figures)
	for _, f := range check.Since(n.before, now) {
		switch {
		case f.N == 0: // it did not occur
		case len(f.Times) == 0:
			n.figure(f.Name, fmt.Sprint(f.N), f.Says)
		case f.N == 1:
			n.figure(f.Name, ms(f.Max), f.Says)
		default:
			n.figure(f.Name, ms(f.P50), fmt.Sprintf("p99 %s, at most %s, n %d: %s", ms(f.P99), ms(f.Max), f.N, f.Says))
		}
	}
	n.before = now
	if n.cfg.Scenario.Load.Clients > 0 {
		missing := check.Run(h, "I7")[0]
		n.figure("publishers missing at subscribers", fmt.Sprint(len(missing.Violations)), fmt.Sprintf("%d looked for so far", missing.Checks))
	}
	if n.last.Look != "" {
		commands := strings.Split(n.last.Look, ", ")
		for i, c := range commands {
			commands[i] = n.cfg.Tool() + " " + c
		}
		n.look(strings.Join(commands, ", "))
	}
}

// Close stops the cluster gracefully if every scene was played, which is the
// last scene. It fails if a process did not end with exit code 0.
func (n *Narrator) Close(ctx context.Context) error {
	if n.left > 0 {
		return n.RealCluster.Close(ctx)
	}
	n.begin("STOP", "the clients leave; then the cluster stops: sessions, data nodes, metas, database")
	left := n.leave(ctx)
	began := time.Now()
	stopped := n.RealCluster.Stop(ctx)
	took := time.Since(began)
	all, err := n.Processes(ctx)
	err = errors.Join(left, stopped, err)
	for _, p := range all {
		if p.Running || p.Code != 0 || p.Signal != "" {
			err = errors.Join(err, fmt.Errorf("%s did not stop: running %t, exit code %d %s", p.Name, p.Running, p.Code, p.Signal))
		}
	}
	if err == nil {
		n.figure("all processes ended in", ms(took), "each with exit code 0")
	}
	return errors.Join(err, n.RealCluster.Close(ctx))
}

// spread formats how many slots each data node leads.
func spread(now testbed.Snapshot) string {
	count := map[string]int{}
	for _, s := range now.Table.Slots {
		count[s.Leader.Name]++
	}
	out := fmt.Sprintf("%d slots", len(now.Table.Slots))
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out += fmt.Sprintf(", %s leads %d", name, count[name])
	}
	return out
}

// ms formats a duration in milliseconds, with a digit behind the point if it is
// short.
func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}
