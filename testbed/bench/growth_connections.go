package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
)

var (
	columnAll    = Column{Name: "allMs", What: "ALL", Unit: "ms"}
	columnKilled = Column{Name: "killedMs", What: "SESSION KILLED, ALL SERVED", Unit: "ms"}
	columnIdle   = Column{Name: "idleKiB", What: "SESSION MEMORY PER CONNECTION", Unit: "KiB"}
)

var connectionsCurve = Curve{
	Name: "connections",
	What: "clients that connect at once, publish one value and subscribe to it, until all have received it",
	Columns: []Column{columnConnections, columnSessions, columnAll, columnP50, columnP99, columnLost, columnGone, columnElections, columnEvictions,
		columnIdle, columnKilled, columnMetaMiB, columnSessionMiB, columnDataMiB},
	Plots: []Plot{
		{What: "until all have had their first push, ms", X: columnConnections.Name, Y: columnAll.Name},
		{What: "connections that lost their session", X: columnConnections.Name, Y: columnLost.Name},
		{What: "memory of the sessions per idle connection, KiB", X: columnConnections.Name, Y: columnIdle.Name},
	},
}

func connectionSizes(cfg GrowthConfig) (out []size) {
	for _, n := range bounded([]int{100, 1_000, 5_000, 10_000}, cfg.MaxConnections) {
		out = append(out, size{columnConnections.Name: float64(n)})
	}
	if cfg.Huge {
		out = append(out, size{columnConnections.Name: hugeConnections, columnSessions.Name: float64(sessionsFor(hugeConnections, cfg.Files))})
	}
	return out
}

const hugeConnections = 100_000

// sessionsFor returns how many sessions n connections need if each session can
// have a number of open files, a fifth of which it needs for itself. 0 files: no
// limit.
func sessionsFor(n, files int) int {
	if each := files * 4 / 5; each > 0 {
		return max(2, (n+each-1)/each)
	}
	return 2
}

// connections measures how long a number of new connections take until each is
// served, and what an idle one costs.
func (p *point) connections(ctx context.Context) (err error) {
	n := p.of(columnConnections)
	before := 0.0
	if p.watch != nil {
		if before, err = p.watch.memory(ctx, "session"); err != nil {
			return err
		}
	}
	served := NewDist()
	start := time.Now()
	var release func() (lost int64, err error)
	var here links    // those of this process
	var bounced int64 // of these, before a session is killed
	switch {
	case n <= clientsPerProcess:
		here, err = serveAll(ctx, p.Driver, "conn", n, n, served)
		release = func() (int64, error) { here.close(); return bounced, nil }
	case p.Clients == nil:
		return fmt.Errorf("%d connections: want at most %d for a target without processes of clients", n, clientsPerProcess)
	default:
		release, err = p.manyClients(ctx, n, served)
	}
	if err == nil {
		p.set(columnAll, float64(time.Since(start).Microseconds())/1000)
		err = sleep.For(ctx, p.Settle)
	}
	p.setDist(served, columnP50, columnP99)
	err = p.conclude(ctx, err)
	if after, known := p.values[columnSessionMiB.Name]; known && err == nil {
		p.set(columnIdle, (after-before)*1024/float64(n))
	}
	bounced = p.Driver.Lost()
	if p.Cluster != nil && here != nil && err == nil {
		err = p.killSession(ctx, here)
	}
	lost, failed := release()
	p.set(columnLost, float64(lost))
	if failed != nil {
		delete(p.values, columnLost.Name) // not all processes have reported
	}
	if ctx.Err() == nil { // which has ended the processes
		err = errors.Join(err, failed)
	}
	return err
}

// killSession kills the session of half of the connections, and measures until all
// connections are served again.
func (p *point) killSession(ctx context.Context, all links) error {
	start := time.Now()
	if err := p.Cluster.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: "session-1"}); err != nil {
		return err
	}
	if err := all.serveAgain(ctx, "again"); err != nil {
		return fmt.Errorf("session-1 was killed: not all connections had another push: %w", err)
	}
	p.set(columnKilled, float64(time.Since(start).Microseconds())/1000)
	return nil
}

// manyClients is serveAll over several processes. It ends them with release,
// which returns how many connections were lost.
func (p *point) manyClients(ctx context.Context, n int, served *Dist) (release func() (int64, error), err error) {
	var processes []*clientProcess
	release = func() (int64, error) {
		lost := int64(0)
		var errs []error
		for _, c := range processes {
			n, err := c.end()
			lost += n
			errs = append(errs, err)
		}
		return lost, errors.Join(errs...)
	}
	for part := 0; part*clientsPerProcess < n; part++ {
		c, err := startClients(p.Clients(ctx, part, min(clientsPerProcess, n-part*clientsPerProcess)))
		if err != nil {
			return release, err
		}
		processes = append(processes, c)
	}
	errs := make([]error, len(processes))
	var serving sync.WaitGroup
	for i, c := range processes {
		serving.Go(func() { errs[i] = c.serve(served) })
	}
	serving.Wait()
	had := int64(0)
	for _, c := range processes {
		had += c.served.Load()
	}
	switch err := errors.Join(errs...); {
	case ctx.Err() != nil: // which has ended the processes
		return release, fmt.Errorf("%d of %d connections had their push%s: %w", had, n, machineLoad(), ctx.Err())
	case err != nil:
		return release, fmt.Errorf("%d of %d connections had their push%s: %w", had, n, machineLoad(), err)
	}
	return release, nil
}

const (
	// clientsPerProcess is how many connections one process has. Each needs a file.
	clientsPerProcess = 10_000
	// atOncePerProcess is how many connections of each of several processes wait for
	// their push at the same time: if all are opened at once, the handshakes keep two
	// cores busy for longer than any client waits, and none is served.
	atOncePerProcess = 50
	// memoryPerConnection is what a connection takes at both of its ends, with what
	// the garbage collector leaves.
	memoryPerConnection = 160 << 10
	// pingTime is the processor time of a ping, of which each client sends one a
	// second also when it is idle: 53 us of the session and 37 us of the client
	// (docs/performance.md).
	pingTime = 90 * time.Microsecond
)

// fits returns an error if the machine cannot have a number of connections: before
// anything is started, instead of after minutes.
func (c GrowthConfig) fits(connections int) error {
	if connections <= clientsPerProcess {
		return nil
	}
	if least := clientsPerProcess * 5 / 4; c.Files > 0 && c.Files < least {
		return fmt.Errorf("not enough open files for %d connections: the hard limit is %d, want %d or more (ulimit -Hn)", connections, c.Files, least)
	}
	if needs := int64(connections) * memoryPerConnection; c.Memory > 0 && c.Memory < needs {
		return fmt.Errorf("not enough memory for %d connections: %d MiB available, want about %d MiB", connections, c.Memory>>20, needs>>20)
	}
	if needs := math.Ceil((time.Duration(connections) * pingTime).Seconds()); c.CPUs > 0 && float64(c.CPUs) < needs {
		return fmt.Errorf("not enough processors for %d connections: %d, want at least %.0f, which their pings alone keep busy", connections, c.CPUs, needs)
	}
	return nil
}
