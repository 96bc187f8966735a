package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"conclave/chaos/soak"
)

// soakOptions say what is run, where, and for how long.
type soakOptions struct {
	on       string
	length   time.Duration
	seed     uint64
	takeover string
	bin      string
	raced    bool
	plan     int
	only     string
	keep     bool
	report   string
	compose  composeOptions
}

func (a *app) soakCommand() *cobra.Command {
	var o soakOptions
	cmd := &cobra.Command{
		Use: "soak", Args: want(), Short: "Break a cluster for a long time, and check it from outside",
		Long: `Starts a cluster of its own under load and plays episodes of overlapping faults and
operator acts on it, drawn from --seed. It knows only what its own clients did and
saw, and the HTTP API. After each episode the cluster is healed and must serve
again, with every subscriber seeing exactly what is published.

The same seed gives the same episodes. A violation keeps the processes' logs and
the event log, and prints the command that plays the same seed again.

Exit codes: 0 everything held, 1 something did not hold, the run failed or was
interrupted, 2 wrong usage.`,
		Example: `  conclave soak --for 10m --seed 7          ten minutes on local processes
  conclave soak --takeover lease            elections by lease alone
  conclave soak --bin raced/ --raced        programs built with "go build -race"
  conclave soak --on compose --for 30m      containers, with a real database
  conclave soak --seed 7 --plan 5           print five episodes, and play none
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
	o.compose.bind(f, "conclave-soak", "when something did not hold")
	f.StringVar(&o.on, "on", "local", "local: processes of this machine; compose: containers")
	f.DurationVar(&o.length, "for", 10*time.Minute, "begin no episode later than this")
	f.Uint64Var(&o.seed, "seed", 1, "of every random choice")
	f.StringVar(&o.bin, "bin", "", "the folder of the programs (default: that of the tool)")
	f.BoolVar(&o.raced, "raced", false, "the programs of --bin were built with the race detector: allow more memory")
	f.IntVar(&o.plan, "plan", 0, "print so many episodes of the seed, and play none")
	f.StringVar(&o.only, "only", "", "play only the kinds of episodes whose names contain this")
	f.BoolVar(&o.keep, "keep", false, "keep the logs and the event log also of a run that held")
	f.StringVar(&o.report, "report", "", "write the report to this file, as JSON")
	f.Lookup("takeover").Usage = "witness: a leader's broken connection is evidence; lease: only time is"
	return cmd
}

func (o *soakOptions) validate() error {
	if o.length <= 0 {
		return fmt.Errorf("--for %s: want more than 0", o.length)
	}
	o.takeover = o.compose.takeover
	if o.takeover != "witness" && o.takeover != "lease" {
		return fmt.Errorf("--takeover %q is none of witness, lease", o.takeover)
	}
	if len(soak.Shapes(o.only)) == 0 {
		return fmt.Errorf("--only %q: no kind of episode has that in its name (want a part of %q)", o.only, soak.Shapes(""))
	}
	if o.bin != "" && o.on == "compose" {
		return errors.New("--bin: containers run the programs of their image (`make image`)")
	}
	if o.bin != "" {
		if _, err := os.Stat(filepath.Join(o.bin, "meta")); err != nil {
			return fmt.Errorf("--bin: %w", err)
		}
	}
	return o.compose.validate(o.on)
}

// capabilities of the cluster that a soak starts.
func (o *soakOptions) capabilities() soak.Capabilities {
	c := soak.Capabilities{Metas: soakMetas, Sessions: soakSessions, Datas: soakDatas, Links: true, LookEvery: 250 * time.Millisecond}
	if o.on == "compose" { // a container's cable is taken out as a whole, and the engine takes its time to answer
		c.Links, c.LookEvery = false, 2*time.Second
	}
	return c
}

// again is the command that plays the same seed.
func (o *soakOptions) again() string {
	line := fmt.Sprintf("conclave soak --for %s --seed %d --takeover %s --on %s", o.length, o.seed, o.takeover, o.on)
	if o.bin != "" {
		line += " --bin " + o.bin
	}
	if o.raced {
		line += " --raced"
	}
	if o.only != "" {
		line += fmt.Sprintf(" --only %q", o.only)
	}
	return line
}

func (a *app) soakPlan(o soakOptions) error {
	plan := soak.NewPlan(o.seed, o.capabilities(), o.only)
	for range o.plan {
		e := plan.Next()
		if err := a.show(e, func(w io.Writer) { fmt.Fprint(w, e) }); err != nil {
			return err
		}
	}
	return nil
}

// soak runs one, prints its report, and keeps what is needed to understand it.
func (a *app) soak(ctx context.Context, o soakOptions) error {
	dir, err := os.MkdirTemp("", "conclave-soak-")
	if err != nil {
		return err
	}
	cluster, err := o.cluster(dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	live := io.Discard
	if !a.asJSON {
		live = a.stdout
		fmt.Fprintf(live, "soak, seed %d, for %s, on %s, takeover by %s\n", o.seed, o.length, o.on, o.takeover)
	}
	run := soak.New(soak.Config{
		Cluster: cluster, Can: o.capabilities(), Load: soak.DefaultLoad(), Seed: o.seed, Only: o.only, For: o.length, Raced: o.raced, Dir: dir,
		Say: func(line string) { fmt.Fprintln(live, line) },
	})
	report, err := run.Run(ctx)
	report.On, report.Takeover, report.Again = o.on, o.takeover, o.again()
	interrupted := err != nil && ctx.Err() != nil
	if err != nil {
		report.Error = err.Error()
		report.Ok = false
	}
	if keep := o.keep || !report.Ok && (!interrupted || len(report.Violations) > 0); keep {
		report.Logs = dir
	} else {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return errors.Join(a.soakReport(report, o), soakResult(report, err, interrupted))
}

// soakReport prints the report and writes its copy.
func (a *app) soakReport(r *soak.Report, o soakOptions) error {
	if o.report != "" {
		err := writePage(o.report, func(w io.Writer) error {
			out := json.NewEncoder(w)
			out.SetIndent("", "  ")
			return out.Encode(r)
		})
		if err != nil {
			return err
		}
	}
	return a.show(r, r.Write)
}

// soakResult is what the tool says at the end.
func soakResult(r *soak.Report, err error, interrupted bool) error {
	broken := 0
	for _, c := range r.Checks {
		broken += c.Broken
	}
	switch {
	case broken > 0:
		return fmt.Errorf("%s in %s; logs and the event log are in %s; again: %s", plural(broken, "violation"), plural(len(r.Episodes), "episode"), r.Logs, r.Again)
	case interrupted:
		return fmt.Errorf("interrupted after %s, which held", plural(len(r.Episodes), "episode"))
	case err != nil && r.Logs != "":
		return fmt.Errorf("the soak failed: %w; logs are in %s; again: %s", err, r.Logs, r.Again)
	}
	return err
}
