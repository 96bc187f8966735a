package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/join"
	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/wire"
)

// targetTimeout is how long an action of a scene waits for the node that it
// selects: without it the scene would show nothing, and the leader may not have
// answered for a moment.
const targetTimeout = 10 * time.Second

// errNoTarget reports that a selector matched no node.
var errNoTarget = errors.New("no node matches")

// perform carries out one line of the scenario on each node that it selects.
func (p *player) perform(ctx context.Context, d testbed.Step) error {
	now := p.sample(ctx)
	who := p.targets.choose(d.Who, now)
	for began := time.Now(); len(who) == 0 && d.Who != "" && len(p.s.Scenes) > 0 && time.Since(began) < targetTimeout; {
		if err := sleep.For(ctx, sampleOpen); err != nil {
			return err
		}
		now = p.sample(ctx)
		who = p.targets.choose(d.Who, now)
	}
	if d.Verb != testbed.HealAll && !(testbed.Action{Verb: d.Verb}).EndsFault() || d.Verb == testbed.Skew || d.Verb == testbed.Switch {
		p.baseline = now // later expectations compare with the state before this fault
	}
	if d.Verb == testbed.HealAll {
		return p.healAll(ctx)
	}
	switch d.Verb {
	case testbed.Freeze, testbed.Unfreeze, testbed.Unguard, testbed.Burst, testbed.EndBurst:
		return p.act(ctx, testbed.Action{Verb: d.Verb, Factor: d.Factor, Arrivals: d.Arrivals, MustRefuse: d.MustRefuse, MustAccept: d.MustAccept}, d.For)
	}
	if len(who) == 0 {
		p.noTarget(d, "")
		return nil
	}
	whom := []string{""}
	if d.Whom != "" && d.Whom != "everyone" {
		if whom = p.targets.resolve(d.Whom, now); len(whom) == 0 {
			p.noTarget(d, d.Whom)
			return nil
		}
	}
	by := d.By
	if !d.To.IsZero() {
		by = time.Until(d.To)
	}
	var acts []testbed.Action
	for _, a := range who {
		for _, b := range whom {
			if a != b {
				acts = append(acts, testbed.Action{
					Verb: d.Verb, Node: a, Peer: b, By: by, Jitter: d.Jitter, Rate: d.Rate, Point: d.Point, Of: d.Of, Number: d.Number, Force: d.Force, MustRefuse: d.MustRefuse && !d.AtOnce, MustAccept: d.MustAccept,
				})
			}
		}
	}
	if d.AtOnce {
		return p.actAtOnce(ctx, acts, d.MustRefuse, d.For)
	}
	for _, a := range acts {
		if err := p.act(ctx, a, d.For); err != nil {
			return err
		}
	}
	return nil
}

// noTarget records a step that was not carried out.
func (p *player) noTarget(d testbed.Step, peer testbed.Selector) {
	p.rec.Fault(check.Fault{Action: testbed.Action{Verb: d.Verb, Node: string(d.Who), Peer: string(peer)}, Err: errNoTarget})
	if len(p.s.Scenes) > 0 { // a scene shows nothing without it
		p.fail("%s: %v", d, errNoTarget)
	}
}

// actAtOnce carries out several commands of operators at the same moment, and
// then records them in their order. If mustRefuse is set, at least one must be
// refused; that the cluster has no leader counts as a refusal, because another
// command may have ended the leadership.
func (p *player) actAtOnce(ctx context.Context, acts []testbed.Action, mustRefuse bool, last time.Duration) error {
	began := time.Now()
	errs := join.Map(acts, func(a testbed.Action) error { return p.cluster.Do(ctx, a) })
	if mustRefuse && !slices.ContainsFunc(errs, func(err error) bool { return p.isRefusal(err) || wire.CodeOf(err) == wire.CodeNoLeader }) {
		p.fail("%s and %d more at once: want a refusal, got %v", acts[0], len(acts)-1, errs)
	}
	for i, a := range acts {
		if err := p.done(ctx, a, began, errs[i], last); err != nil {
			return err
		}
	}
	return nil
}

// act carries out one act and calls done.
func (p *player) act(ctx context.Context, a testbed.Action, last time.Duration) error {
	var err error
	began := time.Now()
	switch a.Verb {
	case testbed.Burst:
		p.load.Burst(ctx, a)
		if p.members == nil {
			p.members = []string{}
		}
	case testbed.EndBurst:
		p.load.EndBurst()
	default:
		if a.Verb == testbed.Start && p.can.Stopping != nil && p.can.Stopping(a.Node) {
			if err := p.act(ctx, testbed.Action{Verb: testbed.Kill, Node: a.Node}, 0); err != nil { // as a service manager does after its timeout
				return err
			}
		}
		if a.Verb == testbed.Kill && strings.HasPrefix(a.Node, "client-") {
			p.load.kill(a.Node)
		}
		if a.Verb == testbed.Kill || a.Verb == testbed.Pause {
			NoteAhead(p.rec, p.can, a.Node)
		}
		err = p.cluster.Do(ctx, a)
	}
	return p.done(ctx, a, began, err, last)
}

// done records an act that began at began and ended with err, and schedules its
// end if it lasts for a limited time.
func (p *player) done(ctx context.Context, a testbed.Action, began time.Time, err error, last time.Duration) error {
	for _, n := range p.narrators {
		n.Did(a, err)
	}
	if p.can.EffectTime != nil && err == nil && !a.EndsFault() {
		p.rec.Earlier(p.can.EffectTime(ctx, a, began), check.Fault{Action: a})
	} else {
		p.rec.Fault(check.Fault{Action: a, Undo: a.EndsFault(), Err: err})
	}
	if a.MustRefuse {
		if p.isRefusal(err) {
			return nil
		}
		p.fail("%s: want a refusal, got %v", a, err)
	}
	if a.MustAccept && err != nil {
		p.fail("%s: %v", a, err)
	}
	if err != nil {
		if errors.Is(err, testbed.ErrUnsupported) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		if !a.Verb.IsCommand() { // without the fault the scenario shows nothing
			p.fail("%s: %v", a, err)
			return nil
		}
		if a.EndsFault() {
			return nil // the fault still lasts; healAll ends it
		}
		// A command that was answered with an error may have been executed all
		// the same, so it is taken back like one that succeeded.
	}
	p.account(a)
	if end := a.Undo(); last > 0 && end.Verb != "" {
		p.at(time.Since(p.start)+last, func(ctx context.Context) error {
			if _, lasts := p.active[a.Key()]; !lasts {
				return nil // already ended by another act
			}
			return p.act(ctx, end, 0)
		})
	}
	return nil
}

// isRefusal reports whether err is the leader's refusal of a command after which
// the cluster would not serve, or, while the database refuses statements, one that
// the database refuses for what it contains.
func (p *player) isRefusal(err error) bool {
	switch wire.CodeOf(err) {
	case wire.CodeNoSuccessor, wire.CodeUnsafe:
		return true
	case wire.CodeTooLarge, wire.CodeInternal:
		for _, end := range p.active {
			if end.Verb == testbed.Accept {
				return true
			}
		}
	}
	return false
}

// account updates the faults that last and the nodes that are down.
func (p *player) account(a testbed.Action) {
	switch {
	case a.EndsFault():
		delete(p.active, a.Key())
		if a.Verb == testbed.Start {
			if _, forbidden := p.active[testbed.Action{Verb: testbed.Forbid, Node: a.Node}.Key()]; p.targets.dead[a.Node] && !forbidden {
				p.targets.back[a.Node] = true
			}
			delete(p.targets.dead, a.Node)
		}
	case a.Undo().Verb != "":
		p.active[a.Key()] = a.Undo()
	}
	if a.Verb == testbed.Forbid {
		delete(p.targets.back, a.Node)
	}
	if (a.Verb == testbed.Kill || a.Verb == testbed.Stop) && !strings.HasPrefix(a.Node, "client-") {
		p.targets.dead[a.Node] = true
	}
}

// healAll ends all faults: bursts first, then those of the network, so that no node
// starts behind a cut; then what the database refuses, clocks, held and paused nodes;
// then it starts the dead nodes; last it takes back the operator's commands, which
// needs a leader.
func (p *player) healAll(ctx context.Context) error {
	for _, verb := range []testbed.Verb{testbed.EndBurst, testbed.Mend, testbed.OpenPort, testbed.Accept, testbed.Skew, testbed.Release, testbed.Resume, testbed.Start, testbed.Unfreeze, testbed.Allow, testbed.Join, testbed.Switch} {
		for _, k := range slices.Sorted(maps.Keys(p.active)) {
			a, lasts := p.active[k]
			if !lasts || a.Verb != verb {
				continue
			}
			if verb.IsCommand() {
				p.undoCommand(ctx, a)
			} else if err := p.act(ctx, a, 0); err != nil {
				return err
			}
			delete(p.active, k)
		}
	}
	return nil
}

// undoCommandLimit bounds how long a healed cluster may refuse to take back an
// operator's command: an election by the lease, and the time of one attempt.
const undoCommandLimit = 30 * time.Second

// undoCommand ends the effect of an operator's command. It repeats the command
// until it succeeds, as an operator would.
func (p *player) undoCommand(ctx context.Context, a testbed.Action) {
	var err error
	for began := time.Now(); time.Since(began) < undoCommandLimit; {
		if err = p.cluster.Do(ctx, a); err == nil || errors.Is(err, testbed.ErrUnsupported) || sleep.For(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	p.rec.Fault(check.Fault{Action: a, Undo: true, Err: err})
	if err != nil && ctx.Err() == nil {
		p.fail("%s, after all faults were healed: %v", a, err)
	}
}
