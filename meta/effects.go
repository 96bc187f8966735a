package meta

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave"
	"conclave/blacklist"
	"conclave/slot"
	"conclave/wire"
)

// The effects of operators' requests, and whether the cluster would still serve
// afterwards. The arranger checks a request and does it in one command, so of
// two requests that together would end the service one is refused.

// effect describes what a request would do. refusal is the reason why it is
// refused unless forced; nil if the cluster serves afterwards.
type effect struct {
	text    string
	refusal *wire.Error
}

// safe returns the effect of a request after which the cluster serves.
func safe(format string, args ...any) effect { return effect{text: fmt.Sprintf(format, args...)} }

// unsafe returns the effect of a request after which the cluster does not
// serve.
func unsafe(code wire.Code, format string, args ...any) effect {
	text := fmt.Sprintf(format, args...)
	return effect{text, wire.Errorf(code, "%s%s", text, wire.UnlessForced)}
}

// effectOfForbid returns the effect of an operator's entry on the blacklist.
func (a *arranger) effectOfForbid(e blacklist.Entry) (effect, error) {
	if _, changed, err := a.black().Add(e); err != nil {
		return effect{}, wire.Errorf(wire.CodeBadRequest, "%v", err)
	} else if !changed || a.black().Has(e.Name) {
		return safe("%s is already on the blacklist", e.Name), nil
	}
	switch e.Role {
	case conclave.RoleSession:
		if a.otherSession(e.Name) {
			return safe("the clients of %s are asked to move to other sessions", e.Name), nil
		}
		return unsafe(wire.CodeNoSuccessor, "%s is the last session that takes clients: it would be drained as soon as another one comes, and nothing could be drained before", e.Name), nil
	case conclave.RoleMeta:
		return a.effectOfQuit(e.Name), nil
	default:
		led := len(a.ledBy(e.Name))
		if others := a.availableData(e.Name); len(others) > 0 {
			return safe("%s hands its %d slots to %s", e.Name, led, strings.Join(others, ", ")), nil
		}
		return unsafe(wire.CodeNoSuccessor, "no other data node may lead slots: the %d slots of %s would stay there, and no crash could be repaired", led, e.Name), nil
	}
}

// ledBy returns the slots that the named node leads.
func (a *arranger) ledBy(name string) (ids []int) {
	for _, s := range a.state.Table.Slots {
		if s.Leader.Name == name {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// availableData returns the other data nodes that are live and not on the
// blacklist.
func (a *arranger) availableData(except string) (names []string) {
	for _, n := range a.roster.live() {
		if n.Name != except && !a.black().Has(n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// otherSession reports whether a session other than the named one takes
// clients.
func (a *arranger) otherSession(name string) bool {
	return a.roster.otherSession(name, a.black().Has)
}

// effectOfQuit returns the effect of making a meta an observer.
func (a *arranger) effectOfQuit(name string) effect {
	if !a.otherCandidate(name) {
		return unsafe(wire.CodeNoSuccessor, "no other meta node is a candidate: no node would lead until one joins the election")
	}
	if name == a.config.Node.Name {
		return safe("%s resigns and observes; another meta is elected", name)
	}
	return safe("%s observes: it does not compete for the leadership", name)
}

// effectOfResign returns the effect of the leader's resignation.
func (a *arranger) effectOfResign() effect {
	self := a.config.Node.Name
	if !a.otherCandidate(self) {
		return unsafe(wire.CodeNoSuccessor, "no other meta node is a candidate: no node would lead for up to %v", 2*a.config.Lease)
	}
	return safe("%s resigns; another meta is elected", self)
}

// maxPushWindow is the longest window in which changes are merged. With a
// longer one every list would be older than the leases by which dead nodes and
// clients are found, and subscribers would keep calling services that ended
// long ago.
const maxPushWindow = 10 * time.Second

// effectOfSwitch returns the effect of setting a switch; key and value are
// valid.
func (a *arranger) effectOfSwitch(key, value string) effect {
	switch key {
	case wire.SwitchProtectionFloor:
		floor, _ := strconv.Atoi(value)
		if live := a.roster.live(); floor > len(live) {
			return unsafe(wire.CodeUnsafe, "%d data nodes are members: with a floor of %d no slot leaves the nodes of its row, and those of a crashed node are not served, until there are %d", len(live), floor, floor)
		}
	case wire.SwitchPushWindow:
		ms, _ := strconv.Atoi(value)
		if window := time.Duration(ms) * time.Millisecond; window > maxPushWindow {
			return unsafe(wire.CodeUnsafe, "subscribers would see each change up to %v late, and %v is longer than a dead client or node is kept (the limit is %v)", window, window, maxPushWindow)
		}
	case wire.SwitchArrange:
		live := a.roster.live()
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
			return safe("no slot is given to another node until arrange is on: those of a node that crashes meanwhile are not served")
		}
	case wire.SwitchStopPush:
		if value == "on" {
			return safe("sessions push nothing, first lists included, and data nodes that stop do not wait until others have copied what they follow, until stop-push is off")
		}
	}
	return safe("%s becomes %s", key, value)
}

// canDrain returns an error if a stopping node may not be put on the blacklist.
func (a *arranger) canDrain(e blacklist.Entry) error {
	switch e.Role {
	case conclave.RoleData:
		if err := slot.CanDrain(a.state.Table, e.Name, a.roster.live(), a.black().Names()); err != nil {
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
