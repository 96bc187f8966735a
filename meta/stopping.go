package meta

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/meta/metaclient"
	"conclave/wire"
)

// A stop of the whole cluster, as `conclave down` announces it: the leader
// records it with a duration, and while it is in force sessions and data nodes
// that stop hand nothing over. No clocks are compared: each node counts the
// duration from the arrival of the record. So does the leader, and clears the
// record when the duration has passed, so that a node that starts later does
// not start to count. `down` leaves the record in the database, and `up` may
// follow: a leader clears the record at once if all metas were restarted since
// it was written.

// Limits of the duration.
const (
	minStopping = time.Second
	maxStopping = 10 * time.Minute
)

// postStopping records an announcement.
func (l *leader) postStopping(r *http.Request) (any, error) {
	var in metaclient.StoppingRequest
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	lasts := metaclient.NodeStopping
	if in.ForMs != 0 {
		lasts = wire.FromMs(in.ForMs)
	}
	switch {
	case in.Incarnation != "":
		return nil, wire.Errorf(wire.CodeBadRequest, "a meta node records a stop of the whole cluster: it takes no incarnation")
	case in.ForMs < 0 || in.ForMs > wire.Ms(maxStopping) || lasts < minStopping:
		return nil, wire.Errorf(wire.CodeBadRequest, "forMs %d: want %d to %d", in.ForMs, wire.Ms(minStopping), wire.Ms(maxStopping))
	}
	if in.By == "" {
		in.By = operator
	}
	err := l.arranger.ask(r.Context(), func(ctx context.Context) error { return l.arranger.announceStop(ctx, lasts, in.By) })
	if err != nil {
		return nil, err
	}
	return stoppingInfo(l.view), nil
}

// deleteStopping withdraws the announcement.
func (l *leader) deleteStopping(r *http.Request) (any, error) {
	err := l.arranger.ask(r.Context(), func(ctx context.Context) error { return l.arranger.endStop(ctx, "withdrawn") })
	if err != nil {
		return nil, err
	}
	return stoppingInfo(l.view), nil
}

func (l *leader) getStopping(*http.Request) (any, error) { return stoppingInfo(l.view), nil }

// stoppingInfo returns the announcement that this node knows.
func stoppingInfo(view *wire.View) metaclient.StoppingInfo {
	if left, _ := view.Stopping(); left > 0 {
		return metaclient.StoppingInfo{Stopping: true, RemainingMs: wire.Ms(left), By: "leader"}
	}
	return metaclient.StoppingInfo{}
}

func (a *arranger) announceStop(ctx context.Context, lasts time.Duration, by string) error {
	if err := a.writeSwitch(ctx, a.stoppingAs(lasts)); err != nil {
		return err
	}
	a.staleStop = false // this one was announced in this run
	a.event(hclog.Warn, "stop.announced", a.state.Switches.Epoch, map[string]any{"forMs": wire.Ms(lasts), "by": by},
		"the whole cluster is stopping (announced by %s): a node that stops within %v hands nothing over", by, lasts)
	a.changed.Set()
	return nil
}

// stoppingAs returns the record of an announcement of that duration; 0 clears
// it.
func (a *arranger) stoppingAs(lasts time.Duration) wire.Switch {
	next := wire.Switch{Key: wire.SwitchStopping, Value: strconv.FormatInt(wire.Ms(lasts), 10), Version: 1}
	list := a.state.Switches.List
	if i := slices.IndexFunc(list, func(s wire.Switch) bool { return s.Key == wire.SwitchStopping }); i >= 0 {
		next.Version = list[i].Version + 1
	}
	return next
}

// endStop clears the record if there is one.
func (a *arranger) endStop(ctx context.Context, why string) error {
	if _, recorded := a.view.Stopping(); !recorded {
		return nil
	}
	if err := a.writeSwitch(ctx, a.stoppingAs(0)); err != nil {
		return err
	}
	a.event(hclog.Info, "stop.ended", a.state.Switches.Epoch, map[string]any{"why": why}, "the announced stop has ended: %s", why)
	return nil
}

// expireStop clears a record whose duration has passed, or that is from an
// earlier run of the metas; until is when to check again.
func (a *arranger) expireStop(ctx context.Context) (until time.Time, err error) {
	left, recorded := a.view.Stopping()
	switch {
	case !recorded:
		a.staleStop = false
		return time.Time{}, nil
	case a.staleStop:
		return time.Time{}, a.endStop(ctx, "it was announced before the metas were started")
	case left > 0:
		return time.Now().Add(left), nil
	}
	return time.Time{}, a.endStop(ctx, "its duration has passed")
}
