package meta

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

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
	a.event(hclog.Info, what, a.state.Blacklist.Epoch, map[string]any{"node": name}, format, args...)
	a.changed.Set()
	return nil
}

// checkSwitch returns an error if a key or its value is invalid.
func checkSwitch(key, value string) error {
	var keys []string
	for _, s := range switchRules {
		switch {
		case s.key != key:
			keys = append(keys, s.key)
		case !s.check(value):
			return wire.Errorf(wire.CodeBadRequest, "switch %s: invalid value %.128q (want %s)", key, value, s.want)
		default:
			return nil
		}
	}
	return wire.Errorf(wire.CodeNotFound, "unknown switch %.128q (want one of %s)", key, strings.Join(keys, ", "))
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
	a.event(hclog.Info, "switch.set", a.state.Switches.Epoch, map[string]any{"key": key, "value": value}, "%s is %s", key, value)
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

// switchRules are the switches that may be set, sorted: each with the value of one
// that was never set, and a check of others.
var switchRules = []struct {
	key, unset string
	check      func(string) bool
	want       string
}{
	{wire.SwitchArrange, "on", onOff, "on or off"},
	{wire.SwitchProtectionFloor, "0", number, "a number of data nodes, 0 for none"},
	{wire.SwitchPushGuard, "on", onOff, "on or off"},
	{wire.SwitchPushWindow, "10", number, "milliseconds"},
	{wire.SwitchStopPush, "off", onOff, "on or off"},
}

// switches returns all switches, sorted; one that was never set has its
// default.
func switches(s wire.Switches) []wire.Switch {
	list := make([]wire.Switch, len(switchRules))
	for i, rule := range switchRules {
		list[i] = wire.Switch{Key: rule.key, Value: rule.unset}
		for _, set := range s.List {
			if set.Key == rule.key {
				list[i] = set
			}
		}
	}
	return list
}

func onOff(v string) bool { return v == "on" || v == "off" }

func number(v string) bool {
	n, err := strconv.Atoi(v)
	return err == nil && n >= 0 && n <= 1_000_000
}

// The configuration that operators publish to clients: a value for each id,
// written under the term like every other kind of state, and passed on by the
// sessions to the clients that watch it. (Article 002: a node fetches the
// provide data from the meta leader when it starts, and is sent its changes.)

// Every node holds the whole configuration, and it is sent whole when a part
// changes.
const (
	maxConfigValue = 16 << 10
	maxConfig      = 1 << 20 // all ids and values
)

// checkConfig returns an error if an id or the size of its value is invalid, or
// the whole would become too large.
func checkConfig(all wire.ConfigValues, id, value string) error {
	if !wire.ValidConfigID(id) {
		return wire.Errorf(wire.CodeBadRequest, "configuration id %.150q: want 1 to 128 letters, digits, dots, hyphens or underscores", id)
	}
	size, count := len(id)+len(value), 1
	for _, v := range all.List {
		if v.ID != id {
			size, count = size+len(v.ID)+len(v.Value), count+1
		}
	}
	switch {
	case len(value) > maxConfigValue:
		return wire.Errorf(wire.CodeTooLarge, "the value has %d bytes: want at most %d", len(value), maxConfigValue)
	case count > wire.MaxWatches:
		return wire.Errorf(wire.CodeTooLarge, "there are %d values already, which is the most", wire.MaxWatches)
	case size > maxConfig:
		return wire.Errorf(wire.CodeTooLarge, "all values would have %d bytes: want at most %d", size, maxConfig)
	}
	return nil
}

// setConfig sets a value; id and value are valid. A value that is set already is
// not written again.
func (a *arranger) setConfig(ctx context.Context, id, value string) (wire.ConfigValue, error) {
	if now, found := a.state.Config.Find(id); found && now.Value == value {
		return now, nil
	}
	now := wire.ConfigValue{ID: id, Value: value, Epoch: a.nextEpoch()}
	if err := a.writeConfig(ctx, id, now); err != nil {
		return wire.ConfigValue{}, err
	}
	a.event(hclog.Info, "config.set", now.Epoch, map[string]any{"id": id, "bytes": len(value)}, "the configuration value %s was set", id)
	return now, nil
}

// removeConfig removes a value.
func (a *arranger) removeConfig(ctx context.Context, id string) error {
	if err := a.writeConfig(ctx, id); err != nil {
		return err
	}
	a.event(hclog.Info, "config.removed", a.state.Config.Epoch, map[string]any{"id": id}, "the configuration value %s was removed", id)
	return nil
}

// writeConfig writes the configuration with other values of an id.
func (a *arranger) writeConfig(ctx context.Context, id string, now ...wire.ConfigValue) error {
	list := slices.DeleteFunc(slices.Clone(a.state.Config.List), func(v wire.ConfigValue) bool { return v.ID == id })
	list = append(list, now...)
	slices.SortFunc(list, func(x, y wire.ConfigValue) int { return strings.Compare(x.ID, y.ID) })
	if err := a.write(ctx, conclavesql.KindConfig, wire.ConfigValues{List: list}); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
