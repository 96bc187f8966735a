package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave"
	"conclave/client"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
)

// call is one call of the SDK, and when it is made.
type call struct {
	what  string
	at    time.Duration
	limit time.Duration // of its context; 0: no limit
}

func (c call) String() string { return fmt.Sprintf("%s at %v within %v", c.what, c.at, c.limit) }

func (c call) context() (context.Context, context.CancelFunc) {
	if c.limit == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), c.limit)
}

var calls = rapid.Custom(func(t *rapid.T) call {
	return call{
		what:  rapid.SampledFrom([]string{"Start", "Run", "Publish", "Subscribe", "Watch", "Close", "Start", "Publish"}).Draw(t, "call"),
		at:    rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond, time.Second, 4 * time.Second}).Draw(t, "at"),
		limit: rapid.SampledFrom([]time.Duration{0, 0, time.Nanosecond, time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "for"),
	}
})

// Whatever is called, in whatever order or at the same moment, and whatever the
// session does: each Close returns in time; after the last one nothing is connected
// or registered and no goroutine is left (which the bubble checks); and what is
// called then fails at once.
func TestClose_EndsTheClientInEveryOrderOfCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(calls, 0, 8).Draw(rt, "calls")
		session := rapid.SampledFrom([]string{"well", "well", "refuses", "waits", "silent", "silent with a long lease", "accepts", "frozen", "gone", "cut", "resolve hangs"}).Draw(rt, "session")
		callback := rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "callback")
		var mu sync.Mutex
		var wrong []string
		report := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, net: simnet.New(1)}
			s := w.session("s1")
			config := client.Config{Sessions: []string{s.address}, Network: w.net.Host("app"), Rand: rand.New(rand.NewPCG(1, 2)), Logger: slog.New(slog.DiscardHandler)}
			switch session {
			case "refuses":
				s.refuse = wire.Errorf(wire.CodeUnavailable, "draining")
			case "waits":
				s.waits = true
			case "silent":
				s.silent = true
			case "silent with a long lease":
				s.silent, s.lease = true, 120_000
			case "accepts":
				s.accept = true
			case "frozen":
				w.net.Pause("s1")
				defer w.net.Resume("s1")
			case "gone":
				w.net.Kill("s1")
			case "cut":
				w.net.Cut("app", "s1")
			case "resolve hangs":
				config.Sessions, config.Resolve = nil, func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }
			}
			c, err := client.New(config)
			require.NoError(t, err)
			var running sync.WaitGroup
			ended, end := context.WithCancel(context.Background()) // of Run: what is not closed is killed
			do := func(x call) {
				time.Sleep(x.at)
				ctx, cancel := x.context()
				defer cancel()
				began := time.Now()
				switch x.what {
				case "Start":
					c.Start()
				case "Run":
					_ = c.Run(ended)
				case "Publish":
					if p, err := c.Publish(ctx, "svc", []string{"a"}); err == nil {
						_ = p.Update([]string{"b"})
						running.Go(func() { _ = p.Stored(ended) })
					}
				case "Subscribe":
					_, err := c.Subscribe("svc", client.OnPush(func(conclave.Datum) { time.Sleep(callback) }))
					if time.Sleep(time.Millisecond); err == nil && s.link() != nil {
						s.link().push("svc", 1, "a")
					}
				case "Watch":
					_, _ = c.Watch("limits")
				case "Close":
					err := c.Close(ctx)
					if took := time.Since(began); x.limit > 0 && took > x.limit+2*time.Second {
						report("%v took %v: %v", x, took, err)
					}
				}
			}
			for _, x := range all {
				running.Go(func() { do(x) })
			}
			time.Sleep(5 * time.Second)
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			closed := c.Close(ctx)
			if took := time.Since(began); took > 3*time.Second {
				report("the last Close took %v", took)
			}
			time.Sleep(callback)
			synctest.Wait()

			if n := w.net.Connections("app"); n > 0 {
				report("%d connections are open after Close", n)
			}
			if closed == nil && session != "frozen" {
				s.set(func() {
					for _, l := range s.links {
						for id, p := range l.registered() {
							if !p.GetWithdrawn() {
								report("%s is registered after Close", id)
							}
						}
					}
				})
			}
			attempts := s.attempts()
			c.Start()
			began = time.Now()
			ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := c.Run(ctx); !errors.Is(err, client.ErrClosed) || time.Since(began) > 0 {
				report("Run after Close returned %v after %v", err, time.Since(began))
			}
			if _, err := c.Publish(context.Background(), "svc", nil); !errors.Is(err, client.ErrClosed) {
				report("Publish after Close: %v", err)
			}
			if _, err := c.Subscribe("svc"); !errors.Is(err, client.ErrClosed) {
				report("Subscribe after Close: %v", err)
			}
			if _, err := c.Watch("limits"); !errors.Is(err, client.ErrClosed) {
				report("Watch after Close: %v", err)
			}
			time.Sleep(time.Minute)
			if n := w.net.Connections("app"); n > 0 || s.attempts() > attempts {
				report("%d connections a minute after Close, %d new attempts", n, s.attempts()-attempts)
			}
			done := make(chan struct{})
			go func() { running.Wait(); close(done) }()
			synctest.Wait()
			select {
			case <-done:
			default:
				report("a call has not returned")
			}
			end()
			if len(wrong) > 0 { // the client may live for ever, and the bubble with it
				panic(fmt.Sprintf("session %s, %v: %v", session, all, wrong))
			}
		})
	})
}
