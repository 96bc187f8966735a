package meta

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/wire"
)

// What an operator's act would do, and whether the cluster would still serve
// afterwards. The arranger judges an act and does it in one command, so that of
// two acts that together would end the service one is refused.

// effect is what an act would do. refusal is why it is not done unless it is
// forced; nil when the cluster serves afterwards.
type effect struct {
	text    string
	refusal *wire.Error
}

// fine is the effect of an act after which the cluster serves.
func fine(format string, args ...any) effect { return effect{text: fmt.Sprintf(format, args...)} }

// unsafe is the effect of an act after which it does not.
func unsafe(code wire.Code, format string, args ...any) effect {
	text := fmt.Sprintf(format, args...)
	return effect{text, wire.Errorf(code, "%s; not done unless it is forced (?force=true)", text)}
}

// manner is how an operator asks for an act.
type manner struct{ force, dryRun bool }

// mannerOf reads ?force= and ?dryRun=.
func mannerOf(r *http.Request) (manner, error) {
	var m manner
	for key, set := range map[string]*bool{"force": &m.force, "dryRun": &m.dryRun} {
		for _, v := range r.URL.Query()[key] {
			switch v {
			case "true":
				*set = true
			case "false":
			default:
				return m, wire.Errorf(wire.CodeBadRequest, "%s=%q: want true or false", key, v)
			}
		}
	}
	return m, nil
}

// act judges an operator's act and does it, unless it would leave a cluster that
// does not serve and is not forced, or only its effect is asked for.
func (l *leader) act(r *http.Request, judge func() (effect, error), do func(context.Context) (any, error)) (any, error) {
	how, err := mannerOf(r)
	if err != nil {
		return nil, err
	}
	var out any // the arranger's until the command is done, which is not waited for without end
	err = l.ask(r.Context(), func(ctx context.Context) error {
		e, err := judge()
		switch {
		case err != nil:
			return err
		case how.dryRun:
			out = shownEffect(e)
			return nil
		case e.refusal != nil && !how.force:
			return e.refusal
		case e.refusal != nil:
			l.s.event("act.forced", l.term.Number, nil, map[string]any{"path": r.URL.Path}, "forced: %s", e.text)
			l.log.Warn("an operator forces what ends the service", "path", r.URL.Path, "effect", e.text)
		}
		out, err = do(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// shownEffect is the answer to a dry run.
func shownEffect(e effect) metaclient.Effect {
	out := metaclient.Effect{DryRun: true, Effect: e.text}
	if e.refusal != nil {
		out.Refused, out.Code = true, e.refusal.Code
	}
	return out
}

// forbidding is the effect of an operator's entry on the blacklist.
func (a *arranger) forbidding(e blacklist.Entry) (effect, error) {
	if _, changed, err := a.black.Add(e, a.next()); err != nil {
		return effect{}, wire.Errorf(wire.CodeBadRequest, "%v", err)
	} else if !changed || a.black.Has(e.Name) {
		return fine("%s is on the blacklist already", e.Name), nil
	}
	switch e.Role {
	case conclave.RoleSession:
		if a.otherSession(e.Name) {
			return fine("the clients of %s are asked to move to other sessions", e.Name), nil
		}
		return unsafe(wire.CodeNoSuccessor, "%s is the last session that takes clients: it would be drained as soon as another one comes, and nothing could be drained before", e.Name), nil
	case conclave.RoleMeta:
		return a.quitting(e.Name), nil
	default:
		led := len(a.ledBy(e.Name))
		if others := a.openData(e.Name); len(others) > 0 {
			return fine("%s hands its %d slots to %s", e.Name, led, strings.Join(others, ", ")), nil
		}
		return unsafe(wire.CodeNoSuccessor, "no other data node may lead slots: the %d slots of %s would stay there, and no crash could be repaired", led, e.Name), nil
	}
}

// ledBy are the slots that the named node leads.
func (a *arranger) ledBy(name string) (ids []int) {
	for _, s := range a.state.Table.Slots {
		if s.Leader.Name == name {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// openData are the data nodes but one that are live and not forbidden.
func (a *arranger) openData(but string) (names []string) {
	live, _ := a.l.roster.live()
	for _, n := range live {
		if n.Name != but && !a.black.Has(n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// otherSession reports whether a session besides the named one takes clients.
func (a *arranger) otherSession(name string) bool {
	return a.l.roster.otherSession(name, a.black.Has)
}

// quitting is the effect of a meta's becoming an observer.
func (a *arranger) quitting(name string) effect {
	if !a.otherCandidate(name) {
		return unsafe(wire.CodeNoSuccessor, "no other meta node is a candidate: no node would lead until one joins the election")
	}
	if name == a.l.s.cfg.Node.Name {
		return fine("%s resigns and observes; another meta is elected", name)
	}
	return fine("%s observes: it does not compete for the leadership", name)
}

// resigning is the effect of the leader's resignation.
func (a *arranger) resigning() effect {
	self := a.l.s.cfg.Node.Name
	if !a.otherCandidate(self) {
		return unsafe(wire.CodeNoSuccessor, "no other meta node is a candidate: no node would lead for up to %v", 2*a.l.s.cfg.Lease)
	}
	return fine("%s resigns; another meta is elected", self)
}

// maxPushWindow is the longest window in which changes are merged. Beyond it
// every list is older than the leases by which nodes and clients are found dead:
// subscribers would go on calling what has long been gone.
const maxPushWindow = 10 * time.Second

// switching is the effect of a switch; key and value are valid.
func (a *arranger) switching(key, value string) effect {
	switch key {
	case wire.SwitchProtectionFloor:
		floor, _ := strconv.Atoi(value)
		if live, _ := a.l.roster.live(); floor > len(live) {
			return unsafe(wire.CodeUnsafe, "%d data nodes are members: with a floor of %d no slot moves, and those of a crashed node are not served, until there are %d", len(live), floor, floor)
		}
	case wire.SwitchPushWindow:
		ms, _ := strconv.Atoi(value)
		if window := time.Duration(ms) * time.Millisecond; window > maxPushWindow {
			return unsafe(wire.CodeUnsafe, "subscribers would see each change up to %v late, and %v is longer than a dead client or node is kept (the limit is %v)", window, window, maxPushWindow)
		}
	case wire.SwitchArrange:
		live, _ := a.l.roster.live()
		unserved := 0
		for _, s := range a.state.Table.Slots {
			if !slices.Contains(live, s.Leader) {
				unserved++
			}
		}
		switch {
		case value == "on":
		case len(a.state.Table.Slots) == 0:
			return unsafe(wire.CodeUnsafe, "there is no slot table yet: none would be made, and nothing be served, until arrange is on")
		case unserved > 0:
			return unsafe(wire.CodeUnsafe, "%d slots have no live leader: they would not be served until arrange is on", unserved)
		default:
			return fine("no slot moves until arrange is on: those of a node that crashes meanwhile are not served")
		}
	case wire.SwitchStopPush:
		if value == "on" {
			return fine("sessions push nothing, first lists included, until stop-push is off")
		}
	}
	return fine("%s becomes %s", key, value)
}

// canDrain reports why a node that stops may not be put on the blacklist.
func (a *arranger) canDrain(e blacklist.Entry) error {
	switch e.Role {
	case conclave.RoleData:
		live, _ := a.l.roster.live()
		if err := slot.CanDrain(a.state.Table, e.Name, live, a.black.Names()); err != nil {
			return wire.Errorf(wire.CodeNoSuccessor, "%v", err)
		}
	case conclave.RoleSession:
		if !a.otherSession(e.Name) {
			return wire.Errorf(wire.CodeNoSuccessor, "no other session takes clients")
		}
	case conclave.RoleMeta:
		if !a.otherCandidate(e.Name) {
			return wire.Errorf(wire.CodeNoSuccessor, "no other meta node is a candidate")
		}
	}
	return nil
}
