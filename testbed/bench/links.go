package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// links are the connections of a load.
type links []Link

// connect opens n connections, and waits until each has registered something.
func (p *point) connect(ctx context.Context, n int) (links, error) {
	var out links
	var warm []Registration
	for i := range n {
		l, err := p.Driver.Connect(fmt.Sprint("growth-", i))
		if err != nil {
			out.close()
			return nil, err
		}
		out = append(out, l)
		r, err := l.Publish(ctx, DataID("warm", i), value(0))
		if err != nil {
			out.close()
			return nil, err
		}
		warm = append(warm, r)
	}
	for _, r := range warm {
		if err := r.Stored(ctx); err != nil {
			out.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	return out, nil
}

// close breaks all connections off.
func (l links) close() {
	var closing sync.WaitGroup
	for _, one := range l {
		closing.Go(one.Close)
	}
	closing.Wait()
}

// sampled is how many registrations of a load are timed at most.
const sampled = 2000

// publish publishes n values, each under its own dataId, all connections at once,
// and waits until all are stored. The i-th registration is of the connection
// i%len(l). The distribution is that of publish to stored, of a sample.
func (l links) publish(ctx context.Context, prefix string, n int) ([]Registration, *Dist, error) {
	latency := NewDist()
	made := make([]Registration, n)
	errs := make([]error, len(l))
	every := max(1, n/sampled)
	var publishing, samples sync.WaitGroup
	for c := range l {
		publishing.Go(func() {
			for i := c; i < n && errs[c] == nil; i += len(l) {
				at := time.Now()
				var r Registration
				if r, errs[c] = l[c].Publish(ctx, DataID(prefix, i), value(i)); errs[c] != nil {
					return
				}
				made[i] = r
				if i/len(l)%every == 0 {
					samples.Go(func() {
						if r.Stored(ctx) == nil { // the loop below reports the error
							latency.Add(time.Since(at))
						}
					})
				}
			}
			for i := c; i < n; i += len(l) {
				if err := made[i].Stored(ctx); err != nil {
					errs[c] = fmt.Errorf("connection %d, registration %d of %d: %w", c+1, i+1, n, err)
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

// serveAll opens n connections, of which atOnce wait for their push at the same
// time. Each publishes one value under a dataId of its own and subscribes to that;
// serveAll returns when all have received the value, and adds the time of each to
// served: since the start if all are opened at once, otherwise since it was opened.
func serveAll(ctx context.Context, d Driver, prefix string, n, atOnce int, served interface{ Add(time.Duration) }) (links, error) {
	start := time.Now()
	var out links
	all := make(chan struct{})
	places := make(chan struct{}, atOnce)
	var missing atomic.Int64
	missing.Store(int64(n))
	failed := func() error {
		return fmt.Errorf("%d of %d connections had no push: %w", missing.Load(), n, ctx.Err())
	}
	for i := range n {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return out, failed()
		}
		if atOnce < n {
			start = time.Now()
		}
		start := start
		l, err := d.Connect(fmt.Sprint(prefix, "-", i))
		if err != nil {
			return out, err
		}
		out = append(out, l)
		err = serve(ctx, l, DataID(prefix, i), value(i), func() {
			served.Add(time.Since(start))
			<-places
			if missing.Add(-1) == 0 {
				close(all)
			}
		})
		if err != nil {
			return out, err
		}
	}
	select {
	case <-all:
		return out, nil
	case <-ctx.Done():
		return out, failed()
	}
}

// serve publishes one value on a connection and subscribes to it. It calls first when
// the connection has received the value.
func serve(ctx context.Context, l Link, dataID, value string, first func()) error {
	if _, err := l.Publish(ctx, dataID, value); err != nil {
		return err
	}
	first = sync.OnceFunc(first)
	return l.Subscribe(dataID, func(values []string) {
		if len(values) > 0 {
			first()
		}
	})
}

// serveAgain publishes another value on each connection, subscribes to it, and waits
// until all have received it.
func (l links) serveAgain(ctx context.Context, prefix string) error {
	all := make(chan struct{})
	var missing atomic.Int64
	missing.Store(int64(len(l)))
	for i, one := range l {
		err := serve(ctx, one, DataID(prefix, i), value(i), func() {
			if missing.Add(-1) == 0 {
				close(all)
			}
		})
		if err != nil {
			return err
		}
	}
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// value returns a value of 100 bytes.
func value(i int) string {
	var v strings.Builder
	v.Grow(len(padding))
	v.WriteString("10.0.0.1:8080?i=")
	v.WriteString(strconv.Itoa(i))
	v.WriteByte('&')
	v.WriteString(padding[v.Len():])
	return v.String()
}

var padding = strings.Repeat("x", 100)

// fewerCollections makes the collector of this process, which is the load and not
// what is measured, leave more of the machine to the cluster. It returns the
// function that ends that.
func fewerCollections() (end func()) {
	before := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(before) }
}
