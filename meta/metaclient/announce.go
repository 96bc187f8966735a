package metaclient

import (
	"context"
	"net/http"
	"sync"
	"time"

	"conclave"
	"conclave/internal/sleep"
	"conclave/wire"
)

// How long announcing a stop may take: until the leader has recorded it, and
// until the nodes show it.
const (
	recordLimit = time.Second
	reachLimit  = time.Second
)

// AnnounceStop announces that the whole cluster is about to stop: through the
// leader, which records it for all nodes and for the given time; and to each
// node that does not show it in time, because there is no leader or the node is
// cut off, for that node's incarnation. A node that cannot be reached drains
// when it stops.
func (a *Admin) AnnounceStop(ctx context.Context, nodes []string, lasts time.Duration, by string) {
	recorded := a.recordStop(ctx, lasts, by) == nil
	ctx, cancel := context.WithTimeout(ctx, 2*reachLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, address := range nodes {
		all.Go(func() {
			if !recorded || !a.waitForStop(ctx, address) {
				_ = a.AnnounceStopTo(ctx, address, by) // if that fails, the node drains
			}
		})
	}
	all.Wait()
}

// StopAnnounced returns what the leader has recorded.
func (a *Admin) StopAnnounced(ctx context.Context) (StoppingInfo, error) {
	return get[StoppingInfo](ctx, a, "/v1/stopping")
}

// TakeBackStop withdraws the announcement.
func (a *Admin) TakeBackStop(ctx context.Context) error {
	return a.any(ctx, http.MethodDelete, "/v1/stopping", nil, nil)
}

// recordStop asks every meta at once, since one may hang: each forwards the
// request to the leader, and a second recording only extends the first.
func (a *Admin) recordStop(ctx context.Context, lasts time.Duration, by string) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel() // one answer is enough
	answers := make(chan error, len(a.Metas))
	for _, address := range a.Metas {
		asking.Go(func() {
			answers <- a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{ForMs: wire.Ms(lasts), By: by}, nil)
		})
	}
	var err error = wire.NotLeader("", "")
	for range a.Metas {
		if got := <-answers; got == nil || wire.CodeOf(err) == wire.CodeNoLeader {
			err = got
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// waitForStop waits until the node at address shows the announcement, and
// reports whether it did in time.
func (a *Admin) waitForStop(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	for {
		var info StoppingInfo
		if err := a.one(ctx, address, http.MethodGet, "/v1/stopping", nil, &info); err == nil && info.Stopping {
			return true
		}
		if sleep.For(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
}

// AnnounceStopTo announces the stop to the session or data node at the address
// alone, for the incarnation that answers there, or, if a meta node answers, to
// the leader. It is in force for NodeStopping.
func (a *Admin) AnnounceStopTo(ctx context.Context, address, by string) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var health struct {
		Role        conclave.Role `json:"role"`
		Incarnation string        `json:"incarnation"`
	}
	if err := a.one(ctx, address, http.MethodGet, "/healthz", nil, &health); err != nil {
		return err
	}
	if health.Role == conclave.RoleMeta {
		return a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{By: by}, nil)
	}
	return a.one(ctx, address, http.MethodPost, "/v1/stopping", StoppingRequest{Incarnation: health.Incarnation, By: by}, nil)
}

// PartialSlots returns how many slots the data node at the address serves without
// a session that it could not reach.
func (a *Admin) PartialSlots(ctx context.Context, address string) (n int, err error) {
	var body struct {
		Slots []struct {
			Partial []conclave.NodeID `json:"partial"`
		} `json:"slots"`
	}
	err = a.one(ctx, address, http.MethodGet, "/v1/slots", nil, &body)
	for _, s := range body.Slots {
		n += min(1, len(s.Partial))
	}
	return n, err
}
