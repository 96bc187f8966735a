package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"conclave/internal/faultnet"
	conclavesql "conclave/sql"
)

// candidates is how many stand in each election.
const candidates = 3

// group is one rule under test: its candidates, and what they have said.
type group struct {
	cfg   Config
	rule  Rule
	times Times
	lab   string
	net   *faultnet.Net
	paths paths
	db    *conclavesql.DB // the lab's own way, without faults

	lives int // processes started, for their incarnations

	mu      sync.Mutex       // guards what follows
	kids    [candidates]*kid // written by the goroutine that plays, which reads it without mu
	beliefs []Belief
	stops   []Span
	calm    bool          // no fault is under way: nobody has a reason to change
	unasked int           // leaderships that began although
	news    chan struct{} // something was said; cap 1, never closed
}

// paths are where a candidate finds the stores, and the network's names for them.
type paths struct {
	sql, tree string // proxies
	address   string // ZooKeeper itself
}

// The hosts of the network, beside the candidates.
const (
	hostSQL  = "database"
	hostTree = "zookeeper"
)

// host is a candidate's name in the network, in which all rules play.
func (g *group) host(name string) string { return g.rule.Name + "/" + name }

// start seats the candidate of a place.
func (g *group) start(place int) error {
	name := fmt.Sprintf("n%d", place+1)
	from, err := g.net.Join(g.host(name))
	if err != nil {
		return err
	}
	g.lives++
	k, err := spawn(g.cfg.Spawn(), Seat{
		Rule: g.rule.Name, Name: name, Incarnation: fmt.Sprintf("%x", g.lives), Lab: g.lab,
		DSN: g.cfg.DSN, Tree: g.paths.address, From: from.String(), ThroughSQL: g.paths.sql, ThroughTree: g.paths.tree,
		Times: g.times, Act: g.cfg.Act, StopLimit: g.times.Lease + time.Second,
	}, g.hear)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kids[place] = k
	return nil
}

// hear takes what a candidate says.
func (g *group) hear(k *kid, e Event) {
	g.mu.Lock()
	switch e.What {
	case "leads":
		g.beliefs = append(g.beliefs, Belief{Who: k.who, From: e.At, Until: e.Until, To: open})
		if g.calm {
			g.unasked++
		}
	case "extends":
		if b := g.last(k.who); b != nil {
			b.Until = e.Until
		}
	case "left":
		if b := g.last(k.who); b != nil {
			b.To = min(b.To, e.At)
		}
	}
	kids := g.kids
	g.mu.Unlock()
	if e.What == "wake" {
		for _, other := range kids {
			if other != nil && other != k {
				other.order("wake")
			}
		}
	}
	nudge(g.news)
}

// last is a process's newest belief; mu is held.
func (g *group) last(who string) *Belief {
	for i := len(g.beliefs) - 1; i >= 0; i-- {
		if g.beliefs[i].Who == who {
			return &g.beliefs[i]
		}
	}
	return nil
}

// gone ends what a process believed: it is dead.
func (g *group) gone(who string, at int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.beliefs {
		if b := &g.beliefs[i]; b.Who == who {
			b.To = min(b.To, at)
		}
	}
}

// believers are the places that believe at an instant.
func (g *group) believers(at int64) (places []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for place, k := range g.kids {
		for _, b := range g.beliefs {
			if k != nil && b.Who == k.who && b.holds(at) {
				places = append(places, place)
				break
			}
		}
	}
	return places
}

// history is a copy of what was said.
func (g *group) history() ([]Belief, []Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Belief(nil), g.beliefs...), append([]Span(nil), g.stops...)
}

// errLate: what was waited for did not come.
var errLate = errors.New("waited too long")

// await waits until a claim holds; it looks whenever something is said, and now and
// then. errLate when the limit has passed.
func (g *group) await(ctx context.Context, limit time.Duration, claim func() bool) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !claim() {
		select {
		case <-g.news:
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return errLate
		}
	}
	return nil
}

// setUp makes the tables and seats the candidates.
func (g *group) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := g.rule.migrate(ctx, g.db, g.lab); err != nil {
		return fmt.Errorf("%s: %w", g.rule.Name, err)
	}
	if _, err := g.db.Exec(ctx, conclavesql.LabWriteSeed, g.lab); err != nil {
		return fmt.Errorf("%s: %w", g.rule.Name, err)
	}
	for place := range g.kids {
		if err := g.start(place); err != nil {
			return err
		}
	}
	return nil
}

// tearDown ends the candidates.
func (g *group) tearDown() {
	for _, k := range g.kids {
		if k != nil {
			k.end()
		}
	}
}

// steady waits until everybody takes part and one of them has led for a while, which
// differs each time, so that a fault meets every phase of a beat. It returns his place.
func (g *group) steady(ctx context.Context) (place int, err error) {
	settle := g.times.Lease*3/10 + rand.N(g.times.Lease/2)
	var since time.Time
	leader := -1
	err = g.await(ctx, g.patience(), func() bool {
		for _, k := range g.kids {
			if k.ended() || !k.isReady() {
				leader = -1
				return false
			}
		}
		who := g.believers(stamp(time.Now()))
		if len(who) != 1 {
			leader = -1
			return false
		}
		if who[0] != leader {
			leader, since = who[0], time.Now()
		}
		return time.Since(since) >= settle
	})
	if errors.Is(err, errLate) {
		return -1, g.unsteady()
	}
	return leader, err
}

// patience is how long a leader is waited for where nothing is wrong.
func (g *group) patience() time.Duration { return 3*g.times.Lease + 15*time.Second }

// errUnsteady: there is nobody whom a fault could be done to.
var errUnsteady = errors.New("no one of its candidates has led alone for long enough")

// anew ends all candidates and seats others, as an operator would who has waited for a
// leader in vain.
func (g *group) anew() error {
	g.calmly(false) // whoever leads then has a reason
	for place, k := range g.kids {
		k.end()
		g.gone(k.who, stamp(time.Now()))
		if err := g.start(place); err != nil {
			return err
		}
	}
	return nil
}

// unsteady says why nobody leads.
func (g *group) unsteady() error {
	for _, k := range g.kids {
		if k.ended() || !k.isReady() {
			return fmt.Errorf("%s: candidate %s does not take part: %s", g.rule.Name, k.who, k.complaint())
		}
	}
	return fmt.Errorf("%s: %w; now %d do", g.rule.Name, errUnsteady, len(g.believers(stamp(time.Now()))))
}

// spent sums up what the candidates other than one have cost so far; false when one of
// them did not answer in time.
func (g *group) spent(ctx context.Context, but int, limit time.Duration) (total Event, ok bool) {
	for place, k := range g.kids {
		if place == but {
			continue
		}
		e, answered := k.ask(ctx, limit)
		if !answered {
			return Event{}, false
		}
		total.Statements += e.Statements
		total.Turns += e.Turns
	}
	return total, true
}

// tallies are what each candidate has counted of its guarded writes, by process. One
// that does not answer is not in them.
func (g *group) tallies(ctx context.Context) map[string]Event {
	list := map[string]Event{}
	for _, k := range g.kids {
		if e, ok := k.ask(ctx, patient); ok {
			list[k.who] = e
		}
	}
	return list
}

// counted sums up what the candidates have counted since before. unheard is for how
// many that live it is not known.
func (g *group) counted(ctx context.Context, before map[string]Event) (sum Event, unheard int) {
	now := g.tallies(ctx)
	for _, k := range g.kids {
		then, known := before[k.who]
		e, answered := now[k.who]
		switch {
		case known && answered:
			sum.Refused += e.Refused - then.Refused
			sum.Stale += e.Stale - then.Stale
			sum.Landed += e.Landed - then.Landed
		case !k.ended():
			unheard++
		}
	}
	return sum, unheard
}

// written is what has landed.
type written struct{ newest, writes, stale, fenced, fencedStale uint64 }

func (g *group) written(ctx context.Context) (w written, err error) {
	err = g.db.QueryRow(ctx, conclavesql.LabWriteRead, []any{g.lab}, &w.newest, &w.writes, &w.stale, &w.fenced, &w.fencedStale)
	if err != nil {
		return w, fmt.Errorf("%s: read what has landed: %w", g.rule.Name, err)
	}
	return w, nil
}
