package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed/load"
)

// clientsServed is what a process of clients reports each second, and, with Ended,
// when all have had their push or one has failed.
type clientsServed struct {
	Served   int       `json:"served"` // so far
	Ended    bool      `json:"ended"`
	ServedMs []float64 `json:"servedMs"` // each since the process was asked to begin
	Error    string    `json:"error,omitempty"`
}

// clientsEnded is its last report.
type clientsEnded struct {
	Lost int64 `json:"lost"`
}

// ServeClients is a process of clients: at a line of in it opens n connections as
// the curve over connections does, but only some at a time, reports how many are
// served, keeps them until the next line or the end of in, and reports how many were
// lost.
func ServeClients(ctx context.Context, pool *load.Pool, prefix string, n int, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	reports := json.NewEncoder(out)
	if !lines.Scan() {
		return errors.Join(errors.New("ended before it was asked to begin"), lines.Err())
	}
	var all timings
	reporting, stop := context.WithCancel(ctx)
	var progress sync.WaitGroup
	progress.Go(func() {
		for sleep.For(reporting, time.Second) == nil && reports.Encode(clientsServed{Served: len(all.ms())}) == nil {
		}
	})
	var clients load.Clients
	err := clients.ServeAll(ctx, pool, prefix, n, min(n, atOncePerProcess), all.add)
	stop()
	progress.Wait()
	defer clients.Kill()
	report := clientsServed{Served: len(all.ms()), Ended: true, ServedMs: all.ms()}
	if err != nil {
		report.Error = err.Error()
	}
	if err := reports.Encode(report); err != nil {
		return err
	}
	lines.Scan()
	return errors.Join(lines.Err(), reports.Encode(clientsEnded{pool.Lost()}))
}

// timings collects single durations. It is safe for concurrent use.
type timings struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (t *timings) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

func (t *timings) ms() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]float64, len(t.all))
	for i, d := range t.all {
		out[i] = float64(d.Microseconds()) / 1000
	}
	return out
}

// clientProcess is a process that runs ServeClients.
type clientProcess struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	reports *json.Decoder
	served  atomic.Int64 // connections that had their push
}

// startClients starts a process of clients, which waits to begin.
func startClients(cmd *exec.Cmd) (*clientProcess, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start clients: %w", err)
	}
	return &clientProcess{cmd: cmd, in: in, reports: json.NewDecoder(out)}, nil
}

// serve makes the clients connect, and adds their times to served.
func (c *clientProcess) serve(served *load.Dist) error {
	if _, err := fmt.Fprintln(c.in, "begin"); err != nil {
		return err
	}
	var r clientsServed
	for !r.Ended {
		if err := c.reports.Decode(&r); err != nil {
			return fmt.Errorf("clients of process %d: %w", c.cmd.Process.Pid, err)
		}
		c.served.Store(int64(r.Served))
	}
	for _, ms := range r.ServedMs {
		served.AddMs(ms)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// end ends the process, and returns how many connections were lost.
func (c *clientProcess) end() (lost int64, err error) {
	_ = c.in.Close() // makes the process report and end; it may have ended already
	var r clientsEnded
	err = c.reports.Decode(&r)
	return r.Lost, errors.Join(err, c.cmd.Wait())
}
