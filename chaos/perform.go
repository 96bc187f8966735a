package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/sleep"
)

// errNoTarget reports that a selector matched no node.
var errNoTarget = errors.New("no node matches")

// undo returns the verb that ends what v begins, or "" if the effect does not
// last.
func undo(v Verb) Verb {
	return map[Verb]Verb{
		Kill: Start, Stop: Start, Pause: Resume, Cut: Mend, CutOne: Mend, Slow: Mend, Skew: Skew,
		Hold: Release, HoldOne: Release, Quit: Join, Forbid: Allow, Freeze: Unfreeze, Switch: Switch,
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
		return p.act(ctx, Act{Verb: d.Verb}, d.For)
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
	for _, a := range who {
		for _, b := range whom {
			if a == b {
				continue
			}
			act := Act{Verb: d.Verb, Node: a, Peer: b, By: by, Jitter: d.Jitter, Rate: d.Rate, Point: d.Point, Force: d.Force}
			if err := p.act(ctx, act, d.For); err != nil {
				return err
			}
		}
	}
	return nil
}

// act carries out one act, records it, and schedules its end if it lasts for a
// limited time.
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
	took, knows := p.driver.(Dated)
	if knows && err == nil && !endsFault(a) {
		p.rec.Earlier(took.TookHold(ctx, a, began), Fault{Act: a})
	} else {
		p.rec.Fault(Fault{Act: a, Undo: endsFault(a), Err: err})
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

// isCommand reports whether v is a command of an operator. If it is refused,
// that is in the history and does not fail the scenario.
func isCommand(v Verb) bool {
	switch v {
	case Resign, Quit, Join, Forbid, Allow, Freeze, Unfreeze, Switch:
		return true
	}
	return false
}

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
	case Start, Resume, Mend, Release, Join, Allow, Unfreeze:
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
			delete(p.targets.dead, a.Node)
		}
	case undoAct(a).Verb != "":
		p.active[key(a)] = undoAct(a)
	}
	if (a.Verb == Kill || a.Verb == Stop) && !strings.HasPrefix(a.Node, "client-") {
		p.targets.dead[a.Node] = true
	}
}

// healAll ends all faults: the network first, so that no node starts behind a
// cut; then clocks, held and paused nodes; then it starts the dead nodes; last
// it takes back the operator's commands, which needs a leader.
func (p *player) healAll(ctx context.Context) error {
	for _, verb := range []Verb{Mend, Skew, Release, Resume, Start, Unfreeze, Allow, Join, Switch} {
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
