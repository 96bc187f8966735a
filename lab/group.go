package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"conclave/internal/signal"
)

// candidates is how many processes take part in each election.
const candidates = 3

// group is one rule under test: its candidates, and the events that they have
// reported.
type group struct {
	*laboratory
	rule  Rule
	times Times
	lab   string // the election's name

	started int    // processes so far; gives each its incarnation
	faults  []Span // the processes into which a fault was injected, until the end of the trial

	changed signal.Signal // an event was handled

	mu          sync.Mutex           // guards what follows
	processes   [candidates]*process // written by the goroutine that runs the trials, which reads it without mu
	leaderships []Leadership
	stops       []Span
	calm        bool   // there is no fault, and so no reason for a new leadership
	unasked     int    // leaderships that began while calm
	refused     uint64 // guarded writes that were refused
}

// The stores' names in net, beside those of the candidates. The first has each host's
// address behind it.
const (
	hostSQL  = "database"
	hostTree = "zookeeper"
)

// host returns a candidate's name in net, which all rules share.
func (g *group) host(name string) string { return g.rule.Name + "/" + name }

// start starts the candidate at a place.
func (g *group) start(place int) error {
	name := fmt.Sprintf("n%d", place+1)
	from, err := g.net.Join(g.host(name))
	if err != nil {
		return err
	}
	g.started++
	p, err := startProcess(g.cfg.Spawn(), Spec{
		Rule: g.rule.Name, Name: name, Incarnation: fmt.Sprintf("%x", g.started), Lab: g.lab,
		DSN: g.cfg.DSN, From: from.String(), ThroughSQL: g.sql, ThroughTree: g.tree,
		Times: g.times, Act: g.cfg.Act, StopLimit: g.times.Lease + time.Second,
	}, g.handle)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.processes[place] = p
	return nil
}

// handle records an event of a process.
func (g *group) handle(p *process, e Event) {
	g.mu.Lock()
	switch e.What {
	case "leads":
		g.leaderships = append(g.leaderships, Leadership{Process: p.id, From: e.At, Until: e.Until, To: open})
		if g.calm {
			g.unasked++
		}
	case "extends":
		if l := g.lastLeadership(p.id); l != nil {
			l.Until = e.Until
		}
	case "left":
		if l := g.lastLeadership(p.id); l != nil {
			l.To = min(l.To, e.At)
		}
	case "refused":
		g.refused++
	}
	processes := g.processes
	g.mu.Unlock()
	if e.What == "wake" {
		for _, other := range processes {
			if other != nil && other != p {
				other.send("wake")
			}
		}
	}
	g.changed.Set()
}

// lastLeadership returns a process's newest leadership, or nil; mu is held.
func (g *group) lastLeadership(process string) *Leadership {
	for i := len(g.leaderships) - 1; i >= 0; i-- {
		if g.leaderships[i].Process == process {
			return &g.leaderships[i]
		}
	}
	return nil
}

// markDead ends all leaderships of a process that has died.
func (g *group) markDead(process string, at int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.leaderships {
		if l := &g.leaderships[i]; l.Process == process {
			l.To = min(l.To, at)
		}
	}
}

// leadersAt returns the places of the candidates that believed at a time that
// they lead.
func (g *group) leadersAt(at int64) (places []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for place, p := range g.processes {
		if p != nil && slices.ContainsFunc(g.leaderships, func(l Leadership) bool { return l.Process == p.id && l.includes(at) }) {
			places = append(places, place)
		}
	}
	return places
}

// history returns copies of the leaderships and stops so far.
func (g *group) history() ([]Leadership, []Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.leaderships), slices.Clone(g.stops)
}

// errTimeout is returned by waitFor.
var errTimeout = errors.New("waited too long")

// waitFor waits until a condition holds, and returns errTimeout after limit.
// The condition is checked after every event, and at an interval, because a
// leadership can end by time alone.
func (g *group) waitFor(ctx context.Context, limit time.Duration, condition func() bool) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-g.changed.C():
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return errTimeout
		}
	}
	return nil
}

// setUp creates the tables and starts the candidates.
func (g *group) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if g.rule.migrate != nil {
		if err := g.rule.migrate(ctx, g.db, g.lab); err != nil {
			return fmt.Errorf("%s: %w", g.rule.Name, err)
		}
	}
	if _, err := g.db.Exec(ctx, statement("write_seed"), g.lab); err != nil {
		return fmt.Errorf("%s: %w", g.rule.Name, err)
	}
	for place := range g.processes {
		if err := g.start(place); err != nil {
			return err
		}
	}
	return nil
}

// tearDown kills the candidates.
func (g *group) tearDown() {
	for _, p := range g.processes {
		if p != nil {
			p.kill()
		}
	}
}

// waitForLeader waits until all candidates take part and one has led alone for
// a while, and returns its place. The while differs each time, so that a fault
// meets every phase of a beat. The error wraps errNoLeader if the candidates
// took part and there was no such leader.
func (g *group) waitForLeader(ctx context.Context) (place int, err error) {
	settle := g.times.Lease*3/10 + rand.N(g.times.Lease/2)
	var since time.Time
	leader := -1
	err = g.waitFor(ctx, g.leaderTimeout(), func() bool {
		leaders := g.leadersAt(stamp(time.Now()))
		if g.absent() != nil || len(leaders) != 1 {
			leader = -1
			return false
		}
		if leaders[0] != leader {
			leader, since = leaders[0], time.Now()
		}
		return time.Since(since) >= settle
	})
	if errors.Is(err, errTimeout) {
		return -1, g.noLeaderError()
	}
	return leader, err
}

// absent returns a candidate that does not take part, or nil.
func (g *group) absent() *process {
	for _, p := range g.processes {
		if p.hasEnded() || !p.isReady() {
			return p
		}
	}
	return nil
}

// leaderTimeout is the limit of waitForLeader.
func (g *group) leaderTimeout() time.Duration { return 3*g.times.Lease + 15*time.Second }

// errNoLeader reports that there is no single leader into which a fault could
// be injected.
var errNoLeader = errors.New("no candidate has led alone for long enough")

// restartAll replaces all candidates, as an operator would if there was no
// leader for too long.
func (g *group) restartAll() error {
	g.setCalm(false)
	for place, p := range g.processes {
		p.kill()
		g.markDead(p.id, stamp(time.Now()))
		if err := g.start(place); err != nil {
			return err
		}
	}
	return nil
}

// noLeaderError returns why there is no single leader.
func (g *group) noLeaderError() error {
	if p := g.absent(); p != nil {
		return fmt.Errorf("%s: candidate %s does not take part: %s", g.rule.Name, p.id, p.failureText())
	}
	return fmt.Errorf("%s: %w; at present %d lead", g.rule.Name, errNoLeader, len(g.leadersAt(stamp(time.Now()))))
}

// costWithout returns the sum of the costs of all candidates but the one at a
// place; -1 leaves out none. ok is false if one did not answer in time.
func (g *group) costWithout(ctx context.Context, without int, limit time.Duration) (total Event, ok bool) {
	for place, p := range g.processes {
		if place == without {
			continue
		}
		e, answered := p.queryCost(ctx, limit)
		if !answered {
			return Event{}, false
		}
		total.Statements += e.Statements
		total.Turns += e.Turns
	}
	return total, true
}

// written counts the writes that have taken effect in the database, and the refused ones.
type written struct{ newest, writes, stale, fenced, fencedStale, refused uint64 }

// written returns the counts so far. Those that were refused are the candidates' reports.
func (g *group) written(ctx context.Context) (w written, err error) {
	g.mu.Lock()
	w.refused = g.refused
	g.mu.Unlock()
	err = g.db.QueryRow(ctx, statement("write_read"), []any{g.lab}, &w.newest, &w.writes, &w.stale, &w.fenced, &w.fencedStale)
	if err != nil {
		return w, fmt.Errorf("%s: read the counts of the leaders' writes: %w", g.rule.Name, err)
	}
	return w, nil
}
