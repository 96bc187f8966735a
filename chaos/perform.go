package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
)

// errNoTarget reports that a selector matched no node.
var errNoTarget = errors.New("no node matches")

// undo returns the verb that ends what v begins, or "" if the effect does not
// last.
func undo(v Verb) Verb {
	return map[Verb]Verb{
		Kill: Start, Stop: Start, Pause: Resume, Cut: Mend, CutOne: Mend, Slow: Mend, Skew: Skew,
		Hold: Release, HoldOne: Release, Quit: Join, Forbid: Allow, Freeze: Unfreeze, Switch: Switch,
		StartWrong: Start, ClosePort: OpenPort,
	}[v]
}

// perform carries out one line of the scenario on each node that it selects.
func (p *player) perform(ctx context.Context, d Deed) error {
	now := p.sample(ctx)
	if d.Verb != HealAll && !endsFault(Act{Verb: d.Verb}) || d.Verb == Skew || d.Verb == Switch {
		p.baseline = now // later expectations compare with the state before this fault
	}
	if d.Verb == HealAll {
		return p.healAll(ctx)
	}
	if d.Verb == Freeze || d.Verb == Unfreeze {
		return p.act(ctx, Act{Verb: d.Verb, MustRefuse: d.MustRefuse}, d.For)
	}
	who := p.targets.choose(d.Who, now)
	if len(who) == 0 {
		p.rec.Fault(Fault{Act: Act{Verb: d.Verb, Node: string(d.Who)}, Err: errNoTarget})
		return nil
	}
	whom := []string{""}
	if d.Whom != "" && d.Whom != "everyone" {
		if whom = p.targets.resolve(d.Whom, now); len(whom) == 0 {
			p.rec.Fault(Fault{Act: Act{Verb: d.Verb, Node: string(d.Who), Peer: string(d.Whom)}, Err: errNoTarget})
			return nil
		}
	}
	by := d.By
	if !d.To.IsZero() {
		by = time.Until(d.To)
	}
	var acts []Act
	for _, a := range who {
		for _, b := range whom {
			if a != b {
				acts = append(acts, Act{
					Verb: d.Verb, Node: a, Peer: b, By: by, Jitter: d.Jitter, Rate: d.Rate, Point: d.Point, Force: d.Force, MustRefuse: d.MustRefuse && !d.AtOnce,
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

// actAtOnce carries out several commands of operators at the same moment, and
// then records them in their order. If mustRefuse is set, at least one must be
// refused; that the cluster has no leader counts as a refusal, because another
// command may have ended the leadership.
func (p *player) actAtOnce(ctx context.Context, acts []Act, mustRefuse bool, last time.Duration) error {
	began := time.Now()
	errs := make([]error, len(acts))
	var operators sync.WaitGroup
	for i, a := range acts {
		operators.Go(func() { errs[i] = p.driver.Do(ctx, a) })
	}
	operators.Wait()
	if mustRefuse && !slices.ContainsFunc(errs, func(err error) bool { return refused(err) || wire.CodeOf(err) == wire.CodeNoLeader }) {
		p.failures = append(p.failures, fmt.Sprintf("%s and %d more at once: want a refusal, got %v", acts[0], len(acts)-1, errs))
	}
	for i, a := range acts {
		if err := p.done(ctx, a, began, errs[i], last); err != nil {
			return err
		}
	}
	return nil
}

// act carries out one act and calls done.
func (p *player) act(ctx context.Context, a Act, last time.Duration) error {
	var err error
	began := time.Now()
	switch a.Verb {
	case Hold:
		p.gate.Hold(a.Node, a.Point)
	case HoldOne:
		p.gate.HoldOne(a.Node, a.Point)
	case Release:
		p.gate.Release(a.Node, a.Point)
	default:
		if a.Verb == Kill && strings.HasPrefix(a.Node, "client-") {
			p.load.kill(a.Node)
		}
		if a.Verb == Kill || a.Verb == Pause {
			p.noteAhead(a.Node)
		}
		err = p.driver.Do(ctx, a)
	}
	return p.done(ctx, a, began, err, last)
}

// done records an act that began at began and ended with err, and schedules its
// end if it lasts for a limited time.
func (p *player) done(ctx context.Context, a Act, began time.Time, err error, last time.Duration) error {
	took, knows := p.driver.(Dated)
	if knows && err == nil && !endsFault(a) {
		p.rec.Earlier(took.TookHold(ctx, a, began), Fault{Act: a})
	} else {
		p.rec.Fault(Fault{Act: a, Undo: endsFault(a), Err: err})
	}
	if a.MustRefuse {
		if refused(err) {
			return nil
		}
		p.failures = append(p.failures, fmt.Sprintf("%s: want a refusal, got %v", a, err))
	}
	if err != nil {
		if errors.Is(err, ErrUnsupported) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		if !isCommand(a.Verb) { // without the fault the scenario shows nothing
			p.failures = append(p.failures, fmt.Sprintf("%s: %v", a, err))
			return nil
		}
		if endsFault(a) {
			return nil // the fault still lasts; healAll ends it
		}
		// A command that was answered with an error may have been executed all
		// the same, so it is taken back like one that succeeded.
	}
	p.account(a)
	if end := undoAct(a); last > 0 && end.Verb != "" {
		p.at(time.Since(p.start)+last, func(ctx context.Context) error {
			if _, lasts := p.active[key(a)]; !lasts {
				return nil // already ended by another act
			}
			return p.act(ctx, end, 0)
		})
	}
	return nil
}

// refused reports whether err is the leader's refusal of a command after which
// the cluster would not serve.
func refused(err error) bool {
	code := wire.CodeOf(err)
	return code == wire.CodeNoSuccessor || code == wire.CodeUnsafe
}

// isCommand reports whether v is a command of an operator. If it is refused,
// that is in the history and does not fail the scenario.
func isCommand(v Verb) bool { return slices.Contains(operatorVerbs, v) }

// undoAct returns the act that ends a, or an empty one.
func undoAct(a Act) Act {
	end := Act{Verb: undo(a.Verb), Node: a.Node, Peer: a.Peer, Point: a.Point}
	if a.Verb == Kill && strings.HasPrefix(a.Node, "client-") {
		return Act{} // a client stays dead
	}
	if a.Verb == Switch {
		end.Peer = switchDefaults[a.Node]
	}
	return end
}

// endsFault reports whether an act ends a fault.
func endsFault(a Act) bool {
	switch a.Verb {
	case Start, Resume, Mend, OpenPort, Release, Join, Allow, Unfreeze:
		return true
	case Skew:
		return a.By == 0
	case Switch:
		return a.Peer == switchDefaults[a.Node]
	}
	return false
}

// key identifies a fault: its node, its peer, and the verb that would end it.
func key(a Act) string {
	verb := a.Verb
	if !endsFault(a) || a.Verb == Skew {
		verb = undo(a.Verb)
	}
	if verb == Switch {
		a.Peer = "" // one fault, whatever the value
	}
	return fmt.Sprint(verb, "/", a.Node, "/", a.Peer, "/", a.Point)
}

// account updates the faults that last and the nodes that are down.
func (p *player) account(a Act) {
	switch {
	case endsFault(a):
		delete(p.active, key(a))
		if a.Verb == Start {
			if _, forbidden := p.active[key(Act{Verb: Forbid, Node: a.Node})]; p.targets.dead[a.Node] && !forbidden {
				p.targets.back[a.Node] = true
			}
			delete(p.targets.dead, a.Node)
		}
	case undoAct(a).Verb != "":
		p.active[key(a)] = undoAct(a)
	}
	if a.Verb == Forbid {
		delete(p.targets.back, a.Node)
	}
	if (a.Verb == Kill || a.Verb == Stop) && !strings.HasPrefix(a.Node, "client-") {
		p.targets.dead[a.Node] = true
	}
}

// healAll ends all faults: the network first, so that no node starts behind a
// cut; then clocks, held and paused nodes; then it starts the dead nodes; last
// it takes back the operator's commands, which needs a leader.
func (p *player) healAll(ctx context.Context) error {
	for _, verb := range []Verb{Mend, OpenPort, Skew, Release, Resume, Start, Unfreeze, Allow, Join, Switch} {
		for _, k := range slices.Sorted(maps.Keys(p.active)) {
			a, lasts := p.active[k]
			if !lasts || a.Verb != verb {
				continue
			}
			if isCommand(verb) {
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
func (p *player) undoCommand(ctx context.Context, a Act) {
	var err error
	for began := time.Now(); time.Since(began) < undoCommandLimit; {
		if err = p.driver.Do(ctx, a); err == nil || errors.Is(err, ErrUnsupported) || sleep.For(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	p.rec.Fault(Fault{Act: a, Undo: true, Err: err})
	if err != nil && ctx.Err() == nil {
		p.failures = append(p.failures, fmt.Sprintf("%s, after all faults were healed: %v", a, err))
	}
}
