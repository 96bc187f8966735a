package soak

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/check/blackbox"
	"conclave/testbed/outside"
	"conclave/testbed/scenario"
)

// Config describes a run.
type Config struct {
	Cluster testbed.RealCluster
	Size    testbed.Size // of the cluster to open
	Seed    uint64
	Only    string        // only themes of storms whose names contain this; "": all
	For     time.Duration // no episode begins later than this after the first
	Raced   bool          // the programs were built with the race detector
	Say     func(line string)
}

// runner is a run.
type runner struct {
	cfg       Config
	cluster   testbed.RealCluster
	oracle    *blackbox.Oracle
	clients   *scenario.Traffic
	processes *processes
	logged    map[string]int // by log file: up to where it was checked
	began     time.Time
	report    Report
}

func (r *runner) elapsed() time.Duration { return time.Since(r.began) }

func (r *runner) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.oracle.Note(text)
	r.cfg.Say(fmt.Sprintf("%7.1f s  %s", r.elapsed().Seconds(), text))
}

// Write says a line of a timeline.
func (r *runner) Write(line []byte) (int, error) {
	r.say("  %s", bytes.TrimRight(line, "\n"))
	return len(line), nil
}

// size returns the size of the cluster, which containers determine themselves.
func (r *runner) size() testbed.Size { return r.cluster.Capabilities().Fit(r.cfg.Size) }

// await calls missing until it returns "". If the bound has passed or ctx has ended
// before, it returns what was missing.
func (r *runner) await(ctx context.Context, bound time.Duration, missing func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	waiting, _ := outside.AwaitReady(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, []string, error) {
		why := missing(ctx)
		return why == "", []string{why}, nil
	})
	return strings.Join(waiting, "")
}

// expect checks that nothing is missing within a bound. It returns false if it was, or
// if ctx has ended.
func (r *runner) expect(ctx context.Context, c blackbox.Check, bound time.Duration, when string, missing func(context.Context) string) bool {
	why := r.await(ctx, bound, missing)
	if ctx.Err() != nil {
		return false
	}
	r.oracle.Expect(c, why == "", "%s, within %s: %s", when, bound, why)
	return why == ""
}

// leaderMissing is a condition of expect.
func (r *runner) leaderMissing(ctx context.Context) string {
	if r.cluster.Observe(ctx).Leader == "" {
		return "no node leads"
	}
	return ""
}

// idle returns a condition of expect: the clients are served from now on.
func (r *runner) idle() func(context.Context) string {
	since := r.elapsed()
	return func(context.Context) string { return r.oracle.Idle(since) }
}

// every calls do after each pause until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) error {
	for sleep.For(ctx, pause) == nil {
		do()
	}
	return nil
}
