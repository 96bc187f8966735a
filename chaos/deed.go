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

// errNobody says that a noun stood for nobody at that moment.
var errNobody = errors.New("there is nobody to do it to")

// undo is the verb that ends what a verb begins; "" for what does not last.
func undo(v Verb) Verb {
	return map[Verb]Verb{
		Kill: Start, Stop: Start, Pause: Resume, Cut: Mend, CutOne: Mend, Slow: Mend, Skew: Skew,
		Hold: Release, HoldOne: Release, Quit: Join, Forbid: Allow, Freeze: Unfreeze, Switch: Switch,
		StartWrong: Start, ClosePort: OpenPort,
	}[v]
}

// deed does one line: to each of the nodes that it is about.
func (p *player) deed(ctx context.Context, d Deed) error {
	now := p.sample(ctx)
	if d.Verb != HealAll && !ends(Act{Verb: d.Verb}) || d.Verb == Skew || d.Verb == Switch {
		p.baseline = now // a fault begins: later expectations compare with this
	}
	if d.Verb == HealAll {
		return p.healAll(ctx)
	}
	if d.Verb == Freeze || d.Verb == Unfreeze {
		return p.act(ctx, Act{Verb: d.Verb, MustRefuse: d.MustRefuse}, d.For)
	}
	who := p.cast.choose(d.Who, now)
	if len(who) == 0 {
		p.rec.Fault(Fault{Act: Act{Verb: d.Verb, Node: string(d.Who)}, Err: errNobody})
		return nil
	}
	whom := []string{""}
	if d.Whom != "" && d.Whom != "everyone" {
		if whom = p.cast.resolve(d.Whom, now); len(whom) == 0 {
			p.rec.Fault(Fault{Act: Act{Verb: d.Verb, Node: string(d.Who), Peer: string(d.Whom)}, Err: errNobody})
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

// actAtOnce does several acts of operators at the same moment, and then keeps
// account of them in their order. With mustRefuse at least one must be refused; it
// may be because one that was accepted ended the leadership.
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

// act does one act, keeps account of what it began, and has it ended in time.
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

// done keeps account of an act that was done, or that failed with err.
func (p *player) done(ctx context.Context, a Act, began time.Time, err error, last time.Duration) error {
	took, knows := p.driver.(Dated)
	if knows && err == nil && !ends(a) {
		p.rec.Earlier(took.TookHold(ctx, a, began), Fault{Act: a})
	} else {
		p.rec.Fault(Fault{Act: a, Undo: ends(a), Err: err})
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
		if !asked(a.Verb) { // a story whose fault did not come about shows nothing
			p.failures = append(p.failures, fmt.Sprintf("%s: %v", a, err))
			return nil
		}
		if ends(a) {
			return nil // what it should end still lasts, and is ended by the healing
		}
		// An operator's act that was answered by an error may have been done all the
		// same: it is taken back like one that was.
	}
	p.account(a)
	if end := undone(a); last > 0 && end.Verb != "" {
		p.at(time.Since(p.start)+last, func(ctx context.Context) error {
			if _, lasts := p.active[key(a)]; !lasts {
				return nil // ended by something else
			}
			return p.act(ctx, end, 0)
		})
	}
	return nil
}

// refused reports whether err is the leader's refusal of an act that would leave a
// cluster that does not serve.
func refused(err error) bool {
	code := wire.CodeOf(err)
	return code == wire.CodeNoSuccessor || code == wire.CodeUnsafe
}

// asked says that an act is an operator's command: that it was refused is no failure
// of the story, its history tells it.
func asked(v Verb) bool {
	switch v {
	case Resign, Quit, Join, Forbid, Allow, Freeze, Unfreeze, Switch:
		return true
	}
	return false
}

// undone is the act that ends a.
func undone(a Act) Act {
	end := Act{Verb: undo(a.Verb), Node: a.Node, Peer: a.Peer, Point: a.Point}
	if a.Verb == Kill && strings.HasPrefix(a.Node, "client-") {
		return Act{} // a client stays dead
	}
	if a.Verb == Switch {
		end.Peer = switchDefaults[a.Node]
	}
	return end
}

// ends says whether an act ends a fault.
func ends(a Act) bool {
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

// key names a fault: who, whom, and what would end it.
func key(a Act) string {
	verb := a.Verb
	if !ends(a) || a.Verb == Skew {
		verb = undo(a.Verb)
	}
	if verb == Switch {
		a.Peer = "" // whatever its value
	}
	return fmt.Sprint(verb, "/", a.Node, "/", a.Peer, "/", a.Point)
}

// account notes what lasts now and what no longer does.
func (p *player) account(a Act) {
	switch {
	case ends(a):
		delete(p.active, key(a))
		if a.Verb == Start {
			if _, forbidden := p.active[key(Act{Verb: Forbid, Node: a.Node})]; p.cast.dead[a.Node] && !forbidden {
				p.cast.back[a.Node] = true
			}
			delete(p.cast.dead, a.Node)
		}
	case undone(a).Verb != "":
		p.active[key(a)] = undone(a)
	}
	if a.Verb == Forbid {
		delete(p.cast.back, a.Node)
	}
	if (a.Verb == Kill || a.Verb == Stop) && !strings.HasPrefix(a.Node, "client-") {
		p.cast.dead[a.Node] = true
	}
}

// healAll ends whatever lasts: first the network, so that no node starts into a
// cut; then clocks, held and paused nodes; then the dead start; and last an
// operator's acts are taken back, which needs a leader.
func (p *player) healAll(ctx context.Context) error {
	for _, verb := range []Verb{Mend, OpenPort, Skew, Release, Resume, Start, Unfreeze, Allow, Join, Switch} {
		for _, k := range slices.Sorted(maps.Keys(p.active)) {
			a, lasts := p.active[k]
			if !lasts || a.Verb != verb {
				continue
			}
			if asked(verb) {
				p.takeBack(ctx, a)
			} else if err := p.act(ctx, a, 0); err != nil {
				return err
			}
			delete(p.active, k)
		}
	}
	return nil
}

// takeBackLimit is within what time a healed cluster must take an operator's act:
// an election by the lease, and what a try may take.
const takeBackLimit = 30 * time.Second

// takeBack ends an operator's act, as an operator does: again until it is done.
func (p *player) takeBack(ctx context.Context, a Act) {
	var err error
	for began := time.Now(); time.Since(began) < takeBackLimit; {
		if err = p.driver.Do(ctx, a); err == nil || errors.Is(err, ErrUnsupported) || sleep.For(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	p.rec.Fault(Fault{Act: a, Undo: true, Err: err})
	if err != nil && ctx.Err() == nil {
		p.failures = append(p.failures, fmt.Sprintf("%s, when all was healed: %v", a, err))
	}
}
