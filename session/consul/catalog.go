package consul

import (
	"cmp"
	"context"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
	"conclave/wire/admit"
	"conclave/wire/serve"
)

// catalog is all services with their instances, as they were read last. It is read for
// each request that comes, and in pauses while one waits for a change.
type catalog struct {
	Config
	turns *admit.Budget // one reading at a time
	last  *snapshot     // of the one whose turn it is
}

// snapshot is the catalog as it was read. It does not change.
type snapshot struct {
	begun     time.Time
	took      time.Duration
	index     uint64 // the time of its last change
	hash      uint64
	instances []Instance // in the order of their services
	err       error      // why it is not complete; index and hash are those of the one before
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
func (c *catalog) read(ctx context.Context, age time.Duration) (*snapshot, error) {
	asked := time.Now()
	turn, err := c.turns.Wait(ctx, "", 1)
	if err != nil {
		return &snapshot{}, err
	}
	defer turn.Leave()
	if begun := c.last.begun; !begun.After(asked.Add(-age)) || c.last.err != nil && !begun.After(asked) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ReadWait) // it is not of this request alone
		defer cancel()
		c.last = c.all(limited, c.last)
	}
	return c.last, c.last.err
}

// all reads all services. Any change of a list changes the hash.
func (c *catalog) all(ctx context.Context, last *snapshot) *snapshot {
	out := &snapshot{begun: time.Now(), index: last.index, hash: last.hash}
	sum, bytes := fnv.New64a(), 0
	out.err = c.Cluster.Services(ctx, func(service string, values []string) error {
		out.instances = append(out.instances, parseAll(service, values, query{})...)
		text := service + "\x00" + strings.Join(values, "\x00") + "\x01"
		_, _ = sum.Write([]byte(text))
		if bytes += len(text); len(out.instances) > catalogMost || bytes > catalogBytes {
			return wire.Errorf(wire.CodeTooLarge, "there are more than %d instances, or %d bytes of them: ask for a service", catalogMost, catalogBytes)
		}
		return nil
	})
	if hash := sum.Sum64(); out.err == nil && (out.index == 0 || hash != out.hash) {
		out.index, out.hash = max(out.index+1, uint64(c.Now().UnixMicro())), hash
	}
	out.took = time.Since(out.begun)
	return out
}

func (c *catalog) getServices(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	now, err := c.get(r.Context(), q)
	out := map[string][]string{} // their tags
	for _, in := range now.instances {
		out[in.Service] = append(out[in.Service], in.Tags...)
	}
	for service, tags := range out {
		out[service] = append([]string{}, slices.Compact(slices.Sorted(slices.Values(tags)))...)
	}
	return out, now.index, err
}

func (c *catalog) getNodes(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	now, err := c.get(r.Context(), q)
	hosts, out := slices.SortedFunc(slices.Values(now.instances), func(a, b Instance) int { return cmp.Compare(a.Host, b.Host) }), []object{}
	for _, in := range slices.CompactFunc(hosts, func(a, b Instance) bool { return a.Host == b.Host }) {
		out = append(out, in.node(c.DataCenter, now.index))
	}
	return out, now.index, err
}

func (c *catalog) getState(r *http.Request, _ serve.Caller, q query) (any, uint64, error) {
	state, err := statusOf(q.name)
	if err != nil && q.name != "any" {
		return nil, 0, err
	}
	now, err := c.get(r.Context(), q)
	out := []object{}
	for _, in := range now.instances {
		for _, check := range in.checks(now.index) {
			if q.name == "any" || check["Status"] == state {
				out = append(out, check)
			}
		}
	}
	return out, now.index, err
}
