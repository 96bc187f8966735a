package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
)

// Benchmarks of the session and its client, over real TCP, with one meta, two
// data nodes and two sessions in this process:
//
//	go test ./session -run '^$' -bench . -benchtime 1x

func measured(b *testing.B) *cluster {
	c := newCluster(b, nil, 256, 2)
	b.Cleanup(c.end)
	for i := range 2 {
		c.startData(fmt.Sprintf("data-%d", i+1))
	}
	for i := range 2 {
		c.startSession(fmt.Sprintf("session-%d", i+1))
	}
	c.settle()
	return c
}

// BenchmarkRegistrations measures how fast one client can register, until the
// session has accepted and until data has stored everything.
func BenchmarkRegistrations(b *testing.B) {
	c := measured(b)
	const n = 50_000
	for b.Loop() {
		x := c.client("writer", "session-1")
		pubs := make([]*client.Publication, n)
		start := time.Now()
		for i := range pubs {
			pubs[i] = c.publish(x, fmt.Sprintf("svc-%d", i), "10.0.0.1:8080")
		}
		for _, p := range pubs {
			require.NoError(b, p.Accepted(c.ctx))
		}
		accepted := time.Since(start)
		for _, p := range pubs {
			require.NoError(b, p.Stored(c.ctx))
		}
		b.ReportMetric(n/accepted.Seconds(), "accepted/s")
		b.ReportMetric(n/time.Since(start).Seconds(), "stored/s")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPairs measures 10,000 publishers and 10,000 subscribers, subscribers
// first.
func BenchmarkPairs(b *testing.B) {
	c := measured(b)
	const n = 10_000
	for round := 0; b.Loop(); round++ {
		writer, reader := c.client("writer", "session-1"), c.client("reader", "session-2")
		var all sync.WaitGroup
		all.Add(n)
		var mu sync.Mutex
		empties, pushes := 0, 0
		for i := range n {
			seen := sync.OnceFunc(all.Done)
			_, err := reader.Subscribe(fmt.Sprintf("pair-%d-%d", round, i), client.OnPush(func(d conclave.Datum) {
				mu.Lock()
				pushes++
				if len(d.Values) == 0 {
					empties++
				}
				mu.Unlock()
				if len(d.Values) > 0 {
					seen()
				}
			}))
			require.NoError(b, err)
		}
		start := time.Now()
		for i := range n {
			c.publish(writer, fmt.Sprintf("pair-%d-%d", round, i), "10.0.0.1:8080")
		}
		all.Wait()
		b.ReportMetric(time.Since(start).Seconds(), "s/all")
		b.ReportMetric(float64(empties)/n, "empties/subscriber")
		b.ReportMetric(float64(pushes)/n, "pushes/subscriber")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPublishToPush measures one publisher's updates, one after the other,
// until one subscriber, or one on each of 100 connections, has them.
func BenchmarkPublishToPush(b *testing.B) {
	for _, readers := range []int{1, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			c := measured(b)
			const n = 200
			seen := make(chan string, readers*4)
			for i := range readers {
				_, err := c.client(fmt.Sprintf("reader-%d", i), "session-2").Subscribe("svc", client.OnPush(func(d conclave.Datum) {
					if len(d.Values) > 0 {
						seen <- d.Values[0]
					}
				}))
				require.NoError(b, err)
			}
			writer := c.client("writer", "session-1")
			p := c.publish(writer, "svc", "first")
			wait := func(value string) {
				for got := 0; got < readers; {
					if <-seen == value {
						got++
					}
				}
			}
			wait("first")
			for b.Loop() {
				var took []time.Duration
				for i := range n {
					time.Sleep(20 * time.Millisecond)
					value := fmt.Sprint(i)
					start := time.Now()
					require.NoError(b, p.Update([]string{value}))
					wait(value)
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[n/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[n*99/100].Microseconds())/1000, "p99-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkUpdates measures 20 updates per second: how late the last value is
// pushed, and the number of pushes.
func BenchmarkUpdates(b *testing.B) {
	c := measured(b)
	for round := 0; b.Loop(); round++ {
		busy := fmt.Sprint("busy-", round)
		h := c.watch(c.client("reader", "session-2"), busy)
		p := c.publish(c.client("writer", "session-1"), busy, "first")
		const n = 100
		var last time.Time
		for i := range n {
			time.Sleep(50 * time.Millisecond)
			last = time.Now()
			require.NoError(b, p.Update([]string{fmt.Sprint(i)}))
		}
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		for !h.shows(fmt.Sprint(n - 1))() {
			require.NoError(b, ctx.Err())
			time.Sleep(100 * time.Microsecond)
		}
		cancel()
		b.ReportMetric(float64(time.Since(last).Microseconds())/1000, "last-ms")
		b.ReportMetric(float64(len(h.all())), "pushes")
	}
	b.ReportMetric(0, "ns/op")
}
