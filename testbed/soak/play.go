package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/testbed"
)

// stepTimeout bounds one step; a start may wait for the end of a stop.
const stepTimeout = 30 * time.Second

// performance is one episode that is being played.
type performance struct {
	*Runner
	began   time.Time
	shift   time.Duration // by how much Serve steps have delayed the rest
	targets map[string]string
	lanes   map[string]chan struct{} // by node: closed when its newest step is done
	all     sync.WaitGroup

	mu      sync.Mutex // guards results
	results []StepReport
}

// play carries out the steps at their offsets. The steps of one node run one
// after the other, those of different nodes concurrently; Serve waits for all.
func (r *Runner) play(ctx context.Context, e Episode) []StepReport {
	p := &performance{Runner: r, began: time.Now(), targets: map[string]string{}, lanes: map[string]chan struct{}{}, results: make([]StepReport, len(e.Steps))}
	for i, s := range e.Steps {
		timer := time.NewTimer(time.Until(p.began.Add(s.At + p.shift)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			p.all.Wait()
			return p.results
		}
		if s.Act == Serve {
			p.all.Wait()
			held := time.Now()
			p.done(i, s, p.serve(ctx))
			p.shift += time.Since(held)
			continue
		}
		s.Node = p.target(ctx, s.Node)
		before, mine := p.lanes[s.Node], make(chan struct{})
		p.lanes[s.Node] = mine
		p.all.Go(func() {
			defer close(mine)
			if before != nil {
				<-before
			}
			limited, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			p.done(i, s, r.step(limited, s))
		})
	}
	p.all.Wait()
	return p.results
}

// target resolves "leader" to the meta that leads when the episode first names
// it.
func (p *performance) target(ctx context.Context, node string) string {
	if node != "leader" {
		return node
	}
	if p.targets[node] == "" {
		if p.targets[node] = p.operator.leader(ctx).Leader; p.targets[node] == "" {
			p.targets[node] = "meta-1" // no meta leads: any will do
		}
	}
	return p.targets[node]
}

// done prints and records the outcome of a step.
func (p *performance) done(i int, s Step, err error) {
	outcome := "done"
	switch {
	case refused(err):
		outcome = "refused: " + err.Error()
	case err != nil:
		outcome = "failed: " + err.Error()
	}
	outcome = strings.Join(strings.Fields(outcome), " ")
	p.mu.Lock()
	p.results[i] = StepReport{AtMs: s.At.Milliseconds(), Step: s.String(), Outcome: outcome}
	p.mu.Unlock()
	p.say("  +%4.1f s  %s: %s", s.At.Seconds(), s, outcome)
}

// serve checks that the cluster serves after the commands that it has accepted.
func (p *performance) serve(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, serveBound)
	defer cancel()
	where, err := p.load.probe(limited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var accepted []string
	p.mu.Lock()
	for _, s := range p.results {
		if s.Outcome == "done" {
			accepted = append(accepted, s.Step)
		}
	}
	p.mu.Unlock()
	p.oracle.Expect(checkServes, err == nil, "after [%s], all accepted, the cluster does not serve within %s: %s: %v", strings.Join(accepted, ", "), serveBound, where, err)
	if led := p.await(ctx, leaderBound, func(ctx context.Context) bool { return p.operator.leader(ctx).Leader != "" }); ctx.Err() == nil {
		p.oracle.Expect(checkServes, led, "after [%s], all accepted, there is no leader within %s", strings.Join(accepted, ", "), leaderBound)
		if !led && err == nil {
			err = errors.New("there is no leader")
		}
	}
	return err
}

// step carries out one step.
func (r *Runner) step(ctx context.Context, s Step) error {
	switch s.Act {
	case Leave:
		r.load.leave(s.Count)
		return nil
	case Drain, testbed.Allow, testbed.Resign, testbed.Quit, testbed.Join, testbed.Switch:
		return r.operator.do(ctx, s)
	case testbed.Kill:
		r.states.set(s.Node, down)
	case testbed.Stop:
		if r.states.get(s.Node) == down {
			return nil
		}
		r.states.mu.Lock()
		r.states.clean[s.Node] = s.Clean
		r.states.mu.Unlock()
		r.states.set(s.Node, stopping)
	case testbed.Start:
		return r.start(ctx, s.Node)
	case testbed.Pause:
		if r.states.get(s.Node) != up {
			return fmt.Errorf("%s is %s", s.Node, r.states.get(s.Node))
		}
		r.states.set(s.Node, paused)
	case testbed.Resume:
		if r.states.get(s.Node) != paused {
			return nil
		}
		r.states.set(s.Node, up)
	case testbed.Cut, testbed.Slow:
		r.states.mu.Lock()
		r.states.links[[2]string{s.Node, s.Peer}] = true
		r.states.mu.Unlock()
	}
	err := r.cluster.Do(ctx, testbed.Action{Verb: s.Act, Node: s.Node, Peer: s.Peer, By: s.By})
	if s.Act == testbed.Kill && r.states.lost() {
		r.oracle.Lost()
	}
	return err
}

// start starts a node. A stopping node gets time to end first.
func (r *Runner) start(ctx context.Context, node string) error {
	if r.states.get(node) == stopping {
		ended := r.await(ctx, stepTimeout/2, func(context.Context) bool { return r.states.get(node) != stopping })
		if !ended {
			r.oracle.Note("%s is still stopping and is killed", node)
			r.states.set(node, down)
		}
	}
	if r.states.get(node) != down {
		return nil
	}
	if r.states.lost() { // up to now
		r.oracle.Lost()
	}
	if err := r.cluster.Do(ctx, testbed.Action{Verb: testbed.Start, Node: node}); err != nil {
		return err
	}
	r.states.set(node, up)
	return nil
}

// heal ends every fault and takes back every operator command of an episode. It
// reports whether that was possible.
func (r *Runner) heal(ctx context.Context, e Episode) bool {
	if ctx.Err() != nil {
		return false
	}
	r.say("  healing")
	ok := r.healLinks(ctx)
	var names []string
	r.states.mu.Lock()
	for name := range r.states.of {
		names = append(names, name)
	}
	r.states.mu.Unlock()
	for _, name := range sorted(names) {
		ok = r.retry(ctx, "resume and start "+name, func(ctx context.Context) error {
			resumed := r.step(ctx, Step{Act: testbed.Resume, Node: name})
			r.awaitStop(ctx, name)
			return errors.Join(resumed, r.start(ctx, name))
		}) && ok
	}
	led := r.await(ctx, leaderBound, func(ctx context.Context) bool {
		r.joinAll(ctx, e)
		return r.operator.leader(ctx).Leader != ""
	})
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(checkLeader, led, "no leader within %s", leaderBound)
	return r.undo(ctx, e) && ok && led
}

// awaitStop waits for the end of a node that was asked to stop. If it does not
// end in time, its start kills it.
func (r *Runner) awaitStop(ctx context.Context, name string) {
	if r.states.get(name) != stopping {
		return
	}
	ended := r.await(ctx, endBound, func(context.Context) bool { return r.states.get(name) != stopping })
	r.states.mu.Lock()
	clean := r.states.clean[name]
	r.states.mu.Unlock()
	if clean && ctx.Err() == nil {
		r.oracle.Expect(checkExit, ended, "%s was stopped without other faults and has not ended within %s", name, endBound)
	}
}

func (r *Runner) healLinks(ctx context.Context) bool {
	r.states.mu.Lock()
	links := r.states.links
	r.states.links = map[[2]string]bool{}
	r.states.mu.Unlock()
	ok := true
	for _, link := range slices.SortedFunc(maps.Keys(links), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		ok = r.retry(ctx, "mend "+link[0], func(ctx context.Context) error {
			return r.cluster.Do(ctx, testbed.Action{Verb: testbed.Mend, Node: link[0], Peer: link[1]})
		}) && ok
	}
	return ok
}

// joinAll makes the metas that have quit in the episode candidates again.
func (r *Runner) joinAll(ctx context.Context, e Episode) {
	for _, s := range e.Steps {
		if isMeta(s.Node) && (s.Act == testbed.Quit || s.Act == Drain) {
			_ = r.operator.do(ctx, Step{Act: testbed.Join, Node: s.Node}) // repeated until there is a leader, and by undo
		}
	}
}

// undo takes back the operator commands, which needs a leader.
func (r *Runner) undo(ctx context.Context, e Episode) bool {
	ok := r.retry(ctx, "clear the blacklist", func(ctx context.Context) error {
		names, err := r.operator.blacklisted(ctx)
		for _, name := range names {
			if allow := r.operator.do(ctx, Step{Act: testbed.Allow, Node: name}); allow != nil && !refused(allow) {
				err = errors.Join(err, allow)
			}
		}
		return err
	})
	for _, s := range e.Steps {
		switch {
		case isMeta(s.Node) && (s.Act == testbed.Quit || s.Act == Drain):
			ok = r.retry(ctx, "join "+s.Node, func(ctx context.Context) error { return r.operator.do(ctx, Step{Act: testbed.Join, Node: s.Node}) }) && ok
		case s.Act == testbed.Switch && lastOf(e.Steps, s.Key) == s:
			ok = r.retry(ctx, s.String(), func(ctx context.Context) error { return r.operator.do(ctx, s) }) && ok
		}
	}
	return ok
}

// lastOf returns the last step that sets a switch, which sets its default.
func lastOf(steps []Step, key string) (last Step) {
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Key == key })
	for ; i >= 0 && i < len(steps); i++ {
		if steps[i].Key == key {
			last = steps[i]
		}
	}
	return last
}

// retry repeats an action until it succeeds or leaderBound has passed.
func (r *Runner) retry(ctx context.Context, what string, do func(context.Context) error) bool {
	var err error
	ok := r.await(ctx, leaderBound, func(ctx context.Context) bool { err = do(ctx); return err == nil })
	if !ok && ctx.Err() == nil {
		r.oracle.Expect(checkServed, false, "healing: %s did not succeed within %s: %v", what, leaderBound, err)
	}
	return ok
}
