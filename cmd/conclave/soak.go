package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"conclave/testbed"
	"conclave/testbed/scenario"
	"conclave/testbed/soak"
)

// soakOptions are the flags of `soak`.
type soakOptions struct {
	clusterOptions
	length time.Duration
	seed   uint64
	bin    string
	raced  bool
	plan   int
	only   string
	keep   bool
	report string
}

func (a *app) soakCommand() *cobra.Command {
	var o soakOptions
	cmd := &cobra.Command{
		Use: "soak", Args: want(), Short: "Inject faults for a long time and check from outside",
		Long: `Start a new cluster under load and run episodes of overlapping faults and operator
actions on it, chosen by --seed. The checks use only what the clients sent and received
and the HTTP API. After each episode all faults are removed, and every subscriber must
receive exactly what is published.

The same seed gives the same episodes; --plan prints them as scenarios. After a violation the processes' logs
are kept, and the command that repeats the seed is printed.

Exit codes: 0 all checks passed, 1 a check failed, or the run failed or was interrupted,
2 invalid usage.`,
		Example: `  conclave soak --for 10m --seed 7          ten minutes on local processes
  conclave soak --takeover lease            elections by lease alone
  conclave soak --bin raced/ --raced        programs built with "go build -race"
  conclave soak --on compose --for 30m      containers, with a real database
  conclave soak --seed 7 --plan 5           print five episodes without running them
  conclave soak --json --report soak.json   one document, and a copy in a file`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			if o.plan > 0 {
				return a.soakPlan(o)
			}
			return a.soak(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	o.bind(cmd, "conclave-soak", "if a check failed")
	f.DurationVar(&o.length, "for", 10*time.Minute, "time after which no episode begins")
	f.Uint64Var(&o.seed, "seed", 1, "seed of every random choice")
	f.StringVar(&o.bin, "bin", "", "folder of the programs (default: that of the tool)")
	f.BoolVar(&o.raced, "raced", false, "allow more memory, for programs in --bin built with the race detector")
	f.IntVar(&o.plan, "plan", 0, "print this many episodes without running them")
	f.StringVar(&o.only, "only", "", "run only the kinds of episodes whose names contain this")
	f.BoolVar(&o.keep, "keep", false, "keep the logs of a successful run too")
	f.StringVar(&o.report, "report", "", "write the report to this file as JSON")
	moreThan0(f, "for")
	f.Lookup("takeover").Usage = "how a dead leader is detected: witness (its connection breaks) or lease (time only)"
	return cmd
}

func (o *soakOptions) validate() error {
	if o.bin != "" && o.on == "compose" {
		return errors.New("--bin does not apply to --on compose, which uses the image (`make image`)")
	}
	if o.bin != "" {
		if _, err := os.Stat(filepath.Join(o.bin, "meta")); err != nil {
			return fmt.Errorf("--bin: %w", err)
		}
	}
	if err := o.clusterOptions.validate(); err != nil {
		return err
	}
	for range o.episodes() {
		return nil
	}
	return fmt.Errorf("--only %q matches no kind of episode that is possible with --on %s (want a part of one of %q)", o.only, o.on, scenario.LosslessThemes())
}

// episodes returns the episodes of the seed.
func (o *soakOptions) episodes() iter.Seq[scenario.Scenario] {
	on := capabilities(o.on)
	return scenario.Storms(o.seed, on.Fit(soakSize), on, o.only)
}

// soakSize is the size of a soak's cluster, as in the demo.
var soakSize = testbed.Size{Metas: 3, Sessions: 2, Datas: 3, Slots: 256, Replicas: 2, Lease: 3 * time.Second}

// again returns the command that repeats the seed.
func (o *soakOptions) again() string {
	line := fmt.Sprintf("conclave soak --for %s --seed %d --takeover %s --on %s", o.length, o.seed, o.takeover, o.on)
	if o.bin != "" {
		line += " --bin " + o.bin
	}
	if o.raced {
		line += " --raced"
	}
	if o.tls {
		line += " --tls"
	}
	if o.only != "" {
		line += fmt.Sprintf(" --only %q", o.only)
	}
	return line
}

func (a *app) soakPlan(o soakOptions) error {
	n := 0
	for s := range o.episodes() {
		n++
		episode := struct {
			Number   int    `json:"number"`
			Name     string `json:"name"`
			Scenario string `json:"scenario"`
		}{n, s.Scenes[0].Title, s.String()}
		if err := a.show(episode, func(w io.Writer) { fmt.Fprintf(w, "# episode %d\n%s\n", n, s) }); err != nil {
			return err
		}
		if n == o.plan {
			break
		}
	}
	return nil
}

// soak runs a soak, prints its report, and keeps the logs if a check failed.
func (a *app) soak(ctx context.Context, o soakOptions) error {
	stage, err := a.newStage(stageConfig{clusterOptions: o.clusterOptions, command: "soak", bin: o.bin, noEvents: true})
	if err != nil {
		return err
	}
	live := io.Discard
	if !a.asJSON {
		live = a.stdout
		fmt.Fprintf(live, "soak, seed %d, for %s, on %s, takeover by %s\n", o.seed, o.length, o.on, o.takeover)
	}
	size := soakSize
	size.Takeover, size.Seed = o.takeover, o.seed
	report, err := soak.Run(ctx, soak.Config{
		Cluster: stage.cluster, Size: size, Seed: o.seed, Only: o.only, For: o.length, Raced: o.raced,
		Say: func(line string) { fmt.Fprintln(live, line) },
	})
	report.On, report.Takeover, report.Again = o.on, o.takeover, o.again()
	interrupted := err != nil && ctx.Err() != nil
	if err != nil {
		report.Error = err.Error()
		report.Ok = false
	}
	if keep := o.keep || !report.Ok && (!interrupted || len(report.Violations) > 0); keep {
		report.Logs = stage.dir
	} else {
		err = errors.Join(err, os.RemoveAll(stage.dir))
	}
	var written error
	if o.report != "" {
		written = writeReport(o.report, report)
	}
	return errors.Join(written, a.show(report, report.Write), soakResult(report, err, interrupted))
}

// soakResult returns the error with which the tool ends.
func soakResult(r *soak.Report, err error, interrupted bool) error {
	broken := 0
	for _, c := range r.Checks {
		broken += c.Broken
	}
	switch {
	case broken > 0:
		return fmt.Errorf("%s in %s; logs are in %s; repeat with: %s", plural(broken, "violation"), plural(len(r.Episodes), "episode"), r.Logs, r.Again)
	case interrupted:
		return fmt.Errorf("interrupted after %s without violations", plural(len(r.Episodes), "episode"))
	case err != nil && r.Logs != "":
		return fmt.Errorf("soak failed: %w; logs are in %s; repeat with: %s", err, r.Logs, r.Again)
	}
	return err
}
