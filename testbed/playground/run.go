package playground

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/live"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
	"conclave/testbed/simulated/wiretap"
)

// Run plays the cluster, and shows it, until ctx ends.
func (w *World) Run(ctx context.Context, hub *console.Hub) error {
	var err error
	var all sync.WaitGroup
	ended := make(chan struct{})
	all.Go(w.check)
	all.Go(func() {
		defer close(ended)
		w.bubble(func() { err = w.play(hub) })
	})
	w.drive(ctx, ended)
	select {
	case w.jobs <- nil:
	case <-ended:
	}
	close(w.over)
	<-ended
	close(w.checks)
	all.Wait()
	return err
}

// play is the bubble's first goroutine.
func (w *World) play(hub *console.Hub) error {
	simulated.SeedBubble(w.start.Seed)
	b := &inside{w: w, began: time.Now(), names: wiretap.New()}
	b.cluster = simulated.New(simulated.Options{Tap: b.sent})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	size := testbed.Size{Seed: w.start.Seed, Metas: w.start.Metas, Sessions: w.start.Sessions, Datas: w.start.Datas, Lease: leaseOf}.WithDefaults()
	web := &http.Client{}
	b.source = live.New(live.Config{
		Title: fmt.Sprintf("a cluster in this page, seed %d", w.start.Seed), HTTP: web, Cluster: b.cluster, Ends: true, Claims: true, Aside: w.aside, Entries: entriesKept,
		Settings:  live.Settings{Replicas: size.Replicas, Takeover: size.Takeover, Lease: size.Lease, NodeLease: size.Lease},
		Processes: live.Known(b.cluster.Statuses, web),
	})
	if err := b.cluster.Open(ctx, size, trace.NewGate(b.claim)); err != nil {
		return err
	}
	transport := &http.Transport{DialContext: b.cluster.Dial(watcher)}
	web.Transport = transport
	w.mu.Lock()
	w.source = b.source
	w.mu.Unlock()
	var shown sync.WaitGroup
	shown.Go(func() { _ = b.source.Run(ctx, hub) }) // nothing is left to heal: the cluster ends with it
	synctest.Wait()
	for job := range w.jobs {
		if job == nil {
			break
		}
		job(b)
	}
	stop()
	shown.Wait()
	transport.CloseIdleConnections()
	limit, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return b.cluster.Close(limit)
}

// watcher is the host of the console, whose messages are no part of the cluster's.
const watcher = "console"

// claim takes an event of a node.
func (b *inside) claim(c trace.Claim) {
	if c.Kind == trace.Led {
		b.mu.Lock()
		b.led = fmt.Sprintf("%s leads term %d", c.Node.Name, c.Term)
		b.mu.Unlock()
	}
	b.source.Claim(c)
}

// sent names what is sent. The network calls it.
func (b *inside) sent(s simnet.Sent) {
	if b.w.tap != nil {
		b.w.tap(s)
	}
	from, _, _ := strings.Cut(s.From, ":")
	to, _, _ := strings.Cut(s.To, ":")
	if from == watcher || to == watcher {
		return
	}
	what := s.What
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.What == "" {
		for _, m := range b.names.Sent(s.From, s.To, s.Data) {
			what = strings.TrimSpace(what + " " + m.What())
		}
	} else {
		b.names.Ended(s.From, s.To, s.What)
	}
	if what != "" {
		b.heard = fmt.Sprintf("%s to %s: %s", from, to, what)
	}
}
