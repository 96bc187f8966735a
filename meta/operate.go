package meta

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"conclave/blacklist"
	conclavesql "conclave/sql"
	"conclave/wire"
)

// What nodes and operators change. Each request runs in the arranger, is durable
// before it is answered, and may be repeated.

// forbid adds an entry to the blacklist.
func (a *arranger) forbid(ctx context.Context, e blacklist.Entry) error {
	set, changed, err := a.black().Add(e)
	if err != nil {
		return wire.Errorf(wire.CodeBadRequest, "%v", err)
	}
	if !changed {
		return nil
	}
	return a.setBlacklist(ctx, set, "blacklist.added", e.Name, "%s was put on the blacklist by %s: %s", e.Name, e.By, e.Reason)
}

// allow removes a name from the blacklist, also if the node added itself.
func (a *arranger) allow(ctx context.Context, name string) error {
	set, changed := a.black().Remove(name)
	if !changed {
		return wire.Errorf(wire.CodeNotFound, "%s is not on the blacklist", name)
	}
	return a.setBlacklist(ctx, set, "blacklist.removed", name, "%s was taken off the blacklist", name)
}

// setBlacklist writes the list. The next round marks the members on it as
// draining, and moves their slots.
func (a *arranger) setBlacklist(ctx context.Context, set blacklist.Set, what, name, format string, args ...any) error {
	if err := a.write(ctx, conclavesql.KindBlacklist, wire.Blacklist{Entries: set}); err != nil {
		return fmt.Errorf("write the blacklist: %w", err)
	}
	epoch := a.state.Blacklist.Epoch
	a.event(what, &epoch, map[string]any{"node": name}, format, args...)
	a.log.Info("blacklist changed", "node", name, "what", what, "epoch", epoch.String())
	a.changed.Set()
	return nil
}

// checkSwitch returns an error if a key or its value is invalid.
func checkSwitch(key, value string) error {
	i := slices.IndexFunc(switchChecks, func(c switchCheck) bool { return c.key == key })
	if i < 0 {
		return wire.Errorf(wire.CodeNotFound, "unknown switch %.128q (want one of %s)", key, strings.Join(switchKeys(), ", "))
	}
	if c := switchChecks[i]; !c.check(value) {
		return wire.Errorf(wire.CodeBadRequest, "switch %s: invalid value %.128q (want %s)", key, value, c.want)
	}
	return nil
}

// setSwitch changes one switch; key and value are valid.
func (a *arranger) setSwitch(ctx context.Context, key, value string) (wire.Switch, error) {
	list := switches(a.state.Switches)
	i := slices.IndexFunc(list, func(s wire.Switch) bool { return s.Key == key })
	if list[i].Value == value {
		return list[i], nil
	}
	now := wire.Switch{Key: key, Value: value, Version: list[i].Version + 1}
	if err := a.writeSwitch(ctx, now); err != nil {
		return wire.Switch{}, err
	}
	epoch := a.state.Switches.Epoch
	a.event("switch.set", &epoch, map[string]any{"key": key, "value": value}, "%s is %s", key, value)
	a.log.Info("switch set", "key", key, "value", value)
	a.changed.Set()
	return now, nil
}

// writeSwitch replaces one switch of the row. A switch that was never set is
// not written: each node has its default.
func (a *arranger) writeSwitch(ctx context.Context, now wire.Switch) error {
	set := slices.DeleteFunc(slices.Clone(a.state.Switches.List), func(s wire.Switch) bool { return s.Key == now.Key })
	set = append(set, now)
	slices.SortFunc(set, func(x, y wire.Switch) int { return strings.Compare(x.Key, y.Key) })
	if err := a.write(ctx, conclavesql.KindSwitches, wire.Switches{List: set}); err != nil {
		return fmt.Errorf("write the switches: %w", err)
	}
	return nil
}

type switchCheck struct {
	key   string
	check func(string) bool
	want  string
}

// switchChecks are the switches that may be set, each with a check of its
// value.
var switchChecks = []switchCheck{
	{wire.SwitchArrange, onOff, "on or off"},
	{wire.SwitchProtectionFloor, number, "a number of data nodes, 0 for none"},
	{wire.SwitchPushGuard, onOff, "on or off"},
	{wire.SwitchPushWindow, number, "milliseconds"},
	{wire.SwitchStopPush, onOff, "on or off"},
}

// switches returns all switches, sorted; one that was never set has its
// default.
func switches(s wire.Switches) []wire.Switch {
	list := []wire.Switch{
		{Key: wire.SwitchArrange, Value: "on"}, {Key: wire.SwitchProtectionFloor, Value: "0"}, {Key: wire.SwitchPushGuard, Value: "on"},
		{Key: wire.SwitchPushWindow, Value: "10"}, {Key: wire.SwitchStopPush, Value: "off"},
	}
	for i, x := range list {
		for _, set := range s.List {
			if set.Key == x.Key {
				list[i] = set
			}
		}
	}
	return list
}

func switchKeys() []string {
	keys := make([]string, len(switchChecks))
	for i, c := range switchChecks {
		keys[i] = c.key
	}
	return keys
}

func onOff(v string) bool { return v == "on" || v == "off" }

func number(v string) bool {
	n, err := strconv.Atoi(v)
	return err == nil && n >= 0 && n <= 1_000_000
}
