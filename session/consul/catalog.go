package consul

import (
	"cmp"
	"context"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"conclave/internal/sleep"
	"conclave/wire"
	"conclave/wire/serve"
)

// catalog is all services with their instances, as they were read last. It is read for
// each request that comes, and in pauses while one waits for a change.
type catalog struct {
	Config
	reading singleflight.Group
	last    atomic.Pointer[snapshot] // read
}

// snapshot is the catalog as it was read. It does not change.
type snapshot struct {
	begun     time.Time
	took      time.Duration
	index     uint64 // the time of its last change
	hash      uint64
	instances []Instance // in the order of their services
}

// Limits of readings.
const (
	catalogPause = time.Second // between two of them for requests that wait
	catalogShare = 20          // and so often the time that the last one took
	catalogMost  = 200_000     // instances
	catalogBytes = 256 << 20
)

// get returns the catalog as it is now, or, if the query has its index, after its next
// change or the wait.
func (c *catalog) get(ctx context.Context, q query) (now *snapshot, err error) {
	limited, cancel := context.WithTimeout(ctx, q.jittered())
	defer cancel()
	now = &snapshot{}
	for age := time.Duration(0); sleep.For(limited, age) == nil; age = max(catalogPause, catalogShare*now.took) {
		if now, err = c.read(ctx, age); err != nil || now.index != q.index {
			return now, err
		}
	}
	return now, ctx.Err()
}

// read returns the catalog as it is, or was within an age. Requests share a reading, but
// none that has begun too early for them: it may not have what their client has just done.
func (c *catalog) read(ctx context.Context, age time.Duration) (now *snapshot, err error) {
	asked := time.Now()
	if now = c.last.Load(); asked.Sub(now.begun) < age {
		return now, nil
	}
	for {
		now, err = c.readOnce(ctx)
		if err = cmp.Or(err, ctx.Err()); err != nil || !now.begun.Before(asked.Add(-age)) {
			return now, err
		}
	}
}

// readOnce reads the catalog, or waits for the reading that has begun.
func (c *catalog) readOnce(ctx context.Context) (*snapshot, error) {
	out, err, _ := c.reading.Do("", func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ReadWait) // it is not of this request alone
		defer cancel()
		next, err := c.all(limited)
		if err != nil {
			return next, err
		}
		last := c.last.Load()
		if next.index = last.index; next.index == 0 || next.hash != last.hash {
			next.index = max(next.index+1, uint64(c.Now().UnixMicro()))
		}
		c.last.Store(next)
		return next, nil
	})
	return out.(*snapshot), err
}

// all reads all services. Any change of a list changes the hash.
func (c *catalog) all(ctx context.Context) (*snapshot, error) {
	out := &snapshot{begun: time.Now()}
	sum, bytes := fnv.New64a(), 0
	err := c.Cluster.Services(ctx, func(service string, values []string) error {
		out.instances = append(out.instances, parseAll(service, values)...)
		text := service + "\x00" + strings.Join(values, "\x00") + "\x01"
		_, _ = sum.Write([]byte(text))
		if bytes += len(text); len(out.instances) > catalogMost || bytes > catalogBytes {
			return wire.Errorf(wire.CodeTooLarge, "there are more than %d instances, or %d bytes of them: ask for a service", catalogMost, catalogBytes)
		}
		return nil
	})
	out.hash, out.took = sum.Sum64(), time.Since(out.begun)
	return out, err
}

func (c *catalog) getServices(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	now, err := c.get(r.Context(), q)
	out := map[string][]string{} // their tags
	for _, in := range now.instances {
		out[in.Service] = append(out[in.Service], in.Tags...)
	}
	for service, tags := range out {
		slices.Sort(tags)
		out[service] = append([]string{}, slices.Compact(tags)...)
	}
	return out, now.index, err
}

func (c *catalog) getNodes(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	now, err := c.get(r.Context(), q)
	out, seen := []object{}, map[string]bool{}
	for _, in := range now.instances {
		if !seen[in.Host] {
			out = append(out, in.node(c.DataCenter, now.index))
		}
		seen[in.Host] = true
	}
	return out, now.index, err
}

func (c *catalog) getState(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	state, err := serve.Segment(r, "state")
	if err == nil && state != "any" {
		state, err = statusOf(state)
	}
	if err != nil {
		return nil, 0, err
	}
	now, err := c.get(r.Context(), q)
	out := []object{}
	for _, in := range now.instances {
		for _, check := range in.checks(now.index) {
			if state == "any" || check["Status"] == state {
				out = append(out, check)
			}
		}
	}
	return out, now.index, err
}
