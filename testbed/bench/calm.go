package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/load"
)

// calm measures the idle cluster: resident memory of each process, statements
// per second at the database, log lines, elections.
func (r *run) calm(ctx context.Context) error {
	if err := r.settled(ctx); err != nil {
		return err
	}
	if err := sleep.For(ctx, r.Settle); err != nil {
		return err
	}
	if err := r.memoryOfEach(ctx); err != nil {
		return err
	}
	before, err := r.admin.Leader(ctx)
	if err != nil {
		return err
	}
	lines, statements, err := r.usage(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := sleep.For(ctx, r.Calm); err != nil {
		return err
	}
	linesAfter, statementsAfter, err := r.usage(ctx)
	if err != nil {
		return err
	}
	took := time.Since(start)
	after, err := r.admin.Leader(ctx)
	if err != nil {
		return err
	}
	r.report(Figure{
		Name: "calm-elections", What: "elections of the idle cluster", Unit: "elections", Target: "0", Note: "in " + took.Round(time.Second).String(),
	}, load.One(float64(after.Term-before.Term)), Limit{Max: 0.5})
	r.report(Figure{Name: "sql-per-second", What: "SQL statements per second, idle", Unit: "per s"},
		load.One(float64(statementsAfter-statements)/took.Seconds()), Limit{Max: 5})
	r.report(Figure{
		Name: "log-lines-per-hour", What: "log lines of all processes, calm hour", Unit: "per h",
		Note: fmt.Sprintf("%d lines in %s, extrapolated", linesAfter-lines, took.Round(time.Second)),
	}, load.One(float64(linesAfter-lines)*float64(time.Hour)/float64(took)), Limit{Max: 1000})
	return nil
}

// usage returns how many lines the processes have logged, and how many statements the
// database has executed.
func (r *run) usage(ctx context.Context) (lines int, statements uint64, err error) {
	files, err := r.LogFiles(ctx)
	for _, file := range files {
		text, failed := os.ReadFile(file)
		err = errors.Join(err, failed)
		lines += bytes.Count(text, []byte("\n"))
	}
	if err != nil {
		return 0, 0, err
	}
	statements, err = r.Questions(ctx)
	return lines, statements, err
}

// memoryOfEach reports the resident memory of each node, where it is known. The sum does
// not include the database, which is not part of SOFARegistry's figure either.
func (r *run) memoryOfEach(ctx context.Context) error {
	ps, err := r.Processes(ctx)
	if err != nil {
		return err
	}
	each := load.NewDist()
	sum := 0.0
	var parts []string
	for _, p := range ps {
		mib := float64(p.RSS) / (1 << 20)
		parts = append(parts, fmt.Sprintf("%s %s", p.Name, number(mib)))
		if p.Role() != testbed.Database {
			each.AddMs(mib)
			sum += mib
		}
	}
	if sum == 0 {
		return nil
	}
	r.report(Figure{
		Name: "memory-each", What: "resident memory of a process, idle", Unit: "MiB",
		Note: strings.Join(parts, ", "),
	}, each.Values(), Limit{Max: 40})
	r.report(Figure{Name: "memory-all", What: "resident memory of all eight", Unit: "MiB"}, load.One(sum), Limit{Max: 320})
	return nil
}
