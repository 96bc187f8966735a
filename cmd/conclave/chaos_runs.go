package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"conclave/testbed/report"
	"conclave/testbed/scenario"
)

// chaosRuns plays scenarios several times each, and counts what comes of it.
type chaosRuns struct {
	app    *app
	attach bool
	o      chaosOptions
	names  []string

	mu      sync.Mutex // guards the fields below, and what is printed
	begun   int
	rows    []*runsRow // by name
	reports []report.Report
	failed  int
	stopped error // why no more runs are begun
	broken  []error
}

// runsRow counts the runs of one scenario.
type runsRow struct {
	name                                   string
	runs, failed, violations, slow, broken int
}

func (a *app) runChaos(ctx context.Context, names []string, attach bool, o chaosOptions) error {
	s := &chaosRuns{app: a, attach: attach, o: o, names: names}
	for _, name := range names {
		s.rows = append(s.rows, &runsRow{name: name})
	}
	var all sync.WaitGroup
	for range o.beside {
		all.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	all.Wait()
	err := errors.Join(append(s.broken, s.stopped)...)
	if o.html != "" && len(s.reports) > 0 {
		err = errors.Join(err, writeFile(o.html, func(w io.Writer) error { return report.WriteHTML(w, s.reports...) }))
	}
	if len(s.reports) > 0 && o.times*len(names) > 1 && !a.asJSON {
		s.writeTable(a.stdout)
	}
	if err == nil && s.failed > 0 {
		err = fmt.Errorf("%d of %s failed", s.failed, plural(len(s.reports), "run"))
	}
	return err
}

// next plays one run, and reports whether there may be another one. Scenarios take
// turns: the first run of each comes before the second of any.
func (s *chaosRuns) next(ctx context.Context) (more bool) {
	s.mu.Lock()
	n := s.begun
	if s.stopped != nil || n >= s.o.times*len(s.names) {
		s.mu.Unlock()
		return false
	}
	s.begun++
	s.mu.Unlock()
	row, o := s.rows[n%len(s.rows)], s.o
	o.seed += uint64(n / len(s.names))
	out, stderr := io.Writer(io.Discard), s.app.stderr
	var kept bytes.Buffer
	switch {
	case o.beside > 1:
		stderr = &kept
	case !s.app.asJSON:
		out = s.app.stdout
	}
	r, err := s.app.playChaos(ctx, row.name, s.attach, o, out, stderr)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.app.stderr.Write(kept.Bytes()) // as everything that is printed
	if err != nil {
		return s.notPlayed(ctx, row, o, err)
	}
	page := report.New(r)
	s.reports = append(s.reports, page)
	row.runs++
	if !r.Ok() {
		s.failed++
		row.failed++
		row.slow += len(r.Late)
		row.violations += len(r.Problems()) - len(r.Late)
	}
	err = s.app.show(page, func(w io.Writer) {
		if o.beside > 1 {
			writeOutcome(w, r)
			return
		}
		writeResult(w, r)
	})
	s.stopped = errors.Join(s.stopped, err)
	return err == nil
}

// notPlayed notes a run without a result. A series goes on after one that was
// begun; mu is held.
func (s *chaosRuns) notPlayed(ctx context.Context, row *runsRow, o chaosOptions, err error) (more bool) {
	var begun *playError
	if errors.As(err, &begun) && ctx.Err() == nil && row.runs > 0 {
		row.broken++
		s.broken = append(s.broken, fmt.Errorf("%s, seed %d: %w", row.name, o.seed, err))
		return true
	}
	s.stopped = errors.Join(s.stopped, err)
	return false
}

// writeTable prints the counts by scenario.
func (s *chaosRuns) writeTable(w io.Writer) {
	t := newTable("SCENARIO", "RUNS", "FAILED", "VIOLATIONS", "TOO SLOW", "NO RESULT")
	for _, r := range s.rows {
		t.add(r.name, r.runs, r.failed, r.violations, r.slow, r.broken)
	}
	fmt.Fprintln(w)
	t.write(w)
}

// writeResult prints the invariants that were checked, and names the others.
func writeResult(w io.Writer, r *scenario.Result) {
	t := newTable("INVARIANT", "CHECKS", "BROKEN", "")
	idle := []string{}
	for _, v := range report.New(r).Verdicts {
		if v.Checks == 0 && len(v.Violations) == 0 {
			idle = append(idle, v.ID)
			continue
		}
		t.add(v.ID, v.Checks, len(v.Violations), v.Says)
	}
	fmt.Fprintln(w)
	t.write(w)
	if len(idle) > 0 {
		fmt.Fprintf(w, "not checked, for lack of an occasion or of trace events: %s\n", strings.Join(idle, ", "))
	}
	fmt.Fprintln(w)
	for _, f := range r.Figures {
		fmt.Fprintln(w, f)
	}
	for _, p := range problems(r) {
		fmt.Fprintln(w, p)
	}
	writeHeld(w, r)
}

// writeOutcome prints the same in a line for each problem, or in one.
func writeOutcome(w io.Writer, r *scenario.Result) {
	for _, p := range problems(r) {
		fmt.Fprintf(w, "%s, seed %d: %s\n", r.Scenario.Name, r.Scenario.Cluster.Seed, p)
	}
	writeHeld(w, r)
}

func writeHeld(w io.Writer, r *scenario.Result) {
	switch late := len(r.Late); {
	case r.Ok():
		fmt.Fprintf(w, "%s, seed %d: all invariants held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	case len(r.Problems()) == late:
		fmt.Fprintf(w, "%s, seed %d: all invariants held, but %s not met in time.\n", r.Scenario.Name, r.Scenario.Cluster.Seed, either(late == 1, "1 expectation was", fmt.Sprint(late, " expectations were")))
	}
}

// problems lists what was not as it should: an expectation that was not met
// within its time is too slow, everything else is broken.
func problems(r *scenario.Result) (out []string) {
	for _, p := range r.Problems() {
		out = append(out, either(slices.Contains(r.Late, p), "TOO SLOW: ", "BROKEN: ")+p)
	}
	return out
}
