package meta

import (
	"context"
	"fmt"
	"slices"
	"strings"

	conclavesql "conclave/sql"
	"conclave/wire"
)

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
	a.event("config.set", &now.Epoch, map[string]any{"id": id, "bytes": len(value)}, "the configuration value %s was set", id)
	return now, nil
}

// removeConfig removes a value.
func (a *arranger) removeConfig(ctx context.Context, id string) error {
	if err := a.writeConfig(ctx, id); err != nil {
		return err
	}
	epoch := a.state.Config.Epoch
	a.event("config.removed", &epoch, map[string]any{"id": id}, "the configuration value %s was removed", id)
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
