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
	"time"
)

// clientsServed is what a process of clients reports when all have had their push.
type clientsServed struct {
	ServedMs []float64 `json:"servedMs"` // each since the process was asked to begin
	Error    string    `json:"error,omitempty"`
}

// clientsEnded is its last report.
type clientsEnded struct {
	Lost int64 `json:"lost"`
}

// ServeClients is a process of clients: at a line of in it opens n connections as
// the curve over connections does, reports when all are served, keeps them until
// the next line or the end of in, and reports how many were lost.
func ServeClients(ctx context.Context, d Driver, prefix string, n int, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	reports := json.NewEncoder(out)
	if !lines.Scan() {
		return errors.Join(errors.New("ended before it was asked to begin"), lines.Err())
	}
	var all timings
	l, err := serveAll(ctx, d, prefix, n, &all)
	defer l.close()
	report := clientsServed{ServedMs: all.ms()}
	if err != nil {
		report.Error = err.Error()
	}
	if err := reports.Encode(report); err != nil {
		return err
	}
	lines.Scan()
	return errors.Join(lines.Err(), reports.Encode(clientsEnded{d.Lost()}))
}

// timings collects single durations. It is safe for concurrent use.
type timings struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

// Add adds a duration.
func (t *timings) Add(d time.Duration) {
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
	return &clientProcess{cmd, in, json.NewDecoder(out)}, nil
}

// serve makes the clients connect, and adds their times to served.
func (c *clientProcess) serve(served *Dist) error {
	if _, err := fmt.Fprintln(c.in, "begin"); err != nil {
		return err
	}
	var r clientsServed
	if err := c.reports.Decode(&r); err != nil {
		return fmt.Errorf("clients of process %d: %w", c.cmd.Process.Pid, err)
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
	if ctx.Err() != nil { // which has ended the processes
		return release, fmt.Errorf("%d of %d connections had their push: %w", served.Values().N, n, ctx.Err())
	}
	return release, errors.Join(errs...)
}

// clientsPerProcess is how many connections one process has. Each needs a file.
const clientsPerProcess = 10_000
