package load

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/client"
	"conclave/testbed"
	"conclave/testbed/outside"
)

// Client is a client under load.
type Client interface {
	testbed.Client
	// Lost returns how often it has lost its session.
	Lost() int64
	// Kill ends it as if its process had died: it withdraws nothing.
	Kill()
}

// Start starts a client by the SDK.
func Start(c client.Config) (Client, error) { return outside.NewClient(c) }

// Leave withdraws all registrations of a client and ends it, so that nothing is left
// for the next measurement.
func Leave(c Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = c.Close(ctx) // if it fails, the session withdraws them after the client lease
}

// Clients are the clients of a load.
type Clients []Client

// Lost returns how often a client has lost its session.
func (c Clients) Lost() (n int64) {
	for _, one := range c {
		n += one.Lost()
	}
	return n
}

// Kill kills all clients.
func (c Clients) Kill() {
	var killing sync.WaitGroup
	for _, one := range c {
		killing.Go(one.Kill)
	}
	killing.Wait()
}

// sampled is how many registrations of a load are timed at most.
const sampled = 2000

// Publish publishes n values, all clients at once, and waits until all are stored.
// The i-th registration is of the client i%len(c), under the dataId of and with the
// value of i. The distribution is that of publish to stored, of a sample.
func (c Clients) Publish(ctx context.Context, n int, dataID, value func(i int) string) ([]testbed.Publication, *Dist, error) {
	latency := NewDist()
	made := make([]testbed.Publication, n)
	errs := make([]error, len(c))
	every := max(1, n/sampled)
	var publishing, samples sync.WaitGroup
	for k := range c {
		publishing.Go(func() {
			for i := k; i < n; i += len(c) {
				at := time.Now()
				r, err := c[k].Publish(ctx, dataID(i), []string{value(i)})
				if err != nil {
					errs[k] = err
					return
				}
				made[i] = r
				if i/len(c)%every == 0 {
					samples.Go(func() {
						if r.Stored(ctx) == nil { // the loop below reports the error
							latency.Add(time.Since(at))
						}
					})
				}
			}
			for i := k; i < n; i += len(c) {
				if err := made[i].Stored(ctx); err != nil {
					errs[k] = fmt.Errorf("client %d, registration %d of %d: %w", k+1, i+1, n, err)
					return
				}
			}
		})
	}
	publishing.Wait()
	samples.Wait()
	for _, err := range errs {
		if err != nil {
			return made, latency, err
		}
	}
	return made, latency, nil
}

// ServeAgain publishes another value of each client, under so many dataIds, subscribes to
// that, and waits until all have received their value.
func (c Clients) ServeAgain(ctx context.Context, prefix string, names int) error {
	all := NewArrivals(len(c))
	for i, one := range c {
		if err := serve(ctx, one, DataID(prefix, i%names), Value(i), all.One); err != nil {
			return err
		}
	}
	return all.Await(ctx, "connections had no other push")
}

// serve publishes one value of a client and subscribes to it. It calls first when the
// client has received the value.
func serve(ctx context.Context, c Client, dataID, value string, first func()) error {
	if _, err := c.Publish(ctx, dataID, []string{value}); err != nil {
		return err
	}
	first = sync.OnceFunc(first)
	return c.Subscribe(dataID, func(d conclave.Datum) {
		if slices.Contains(d.Values, value) {
			first()
		}
	})
}

// Arrivals waits until a number of things has arrived. It is safe for concurrent use.
type Arrivals struct {
	of   int
	left atomic.Int64
	all  chan struct{} // closed when none is left
}

// NewArrivals returns an Arrivals of n, which is more than 0.
func NewArrivals(n int) *Arrivals {
	a := &Arrivals{of: n, all: make(chan struct{})}
	a.left.Store(int64(n))
	return a
}

// One records that one has arrived.
func (a *Arrivals) One() {
	if a.left.Add(-1) == 0 {
		close(a.all)
	}
}

// Await waits until all have arrived. missing completes the error: "3 of 10" missing.
func (a *Arrivals) Await(ctx context.Context, missing string) error {
	select {
	case <-a.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d %s: %w", a.left.Load(), a.of, missing, ctx.Err())
	}
}

// DataID returns the i-th dataId of a prefix, from 0.
func DataID(prefix string, i int) string { return prefix + "." + strconv.Itoa(i) }

// DataIDs returns the dataIds of a prefix.
func DataIDs(prefix string) func(i int) string {
	return func(i int) string { return DataID(prefix, i) }
}

// Value returns a value of 100 bytes.
func Value(i int) string {
	var v strings.Builder
	v.Grow(len(padding))
	v.WriteString("10.0.0.1:8080?i=")
	v.WriteString(strconv.Itoa(i))
	v.WriteByte('&')
	v.WriteString(padding[v.Len():])
	return v.String()
}

var padding = strings.Repeat("x", 100)
