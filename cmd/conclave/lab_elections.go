package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"conclave/lab"
	"conclave/testbed/local/supervisor"
)

func (a *app) labCommand() *cobra.Command {
	cmd := group("lab", "Compare elections and locks under the same faults", a.labElectionsCommand(), a.labOversellCommand())
	cmd.AddCommand(a.labCandidateCommand())
	return cmd
}

// labElections are the flags of `lab elections`.
type labElections struct {
	db, zookeeper, html string
	rules               []string
	cfg                 lab.Config
}

func (a *app) labElectionsCommand() *cobra.Command {
	o := labElections{cfg: lab.DefaultConfig()}
	cmd := &cobra.Command{
		Use: "elections", Short: fmt.Sprintf("Compare %d election rules under the same faults", len(lab.Rules())), Args: want(),
		Long: `Run Conclave's strategies, the articles' own forms and the rules of other projects, each
with three processes on one database, and inject faults into their leaders: kill -9,
SIGTERM, SIGSTOP, and a cut between the leader and its store. Print the time without a
leader, the cost, the time with two perceived leaders, and which of their writes were
executed. It takes less than three minutes.

In a database of --db it creates tables whose names begin with lab_, and those of the
strategies; they are not removed. Exit with 1 if a rule could not run, or if one of
Conclave's did not keep its guarantees. Ctrl-C prints the measurements so far and exits
with 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.labElections(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.db, "db", supervisor.Embedded, "embedded or a DSN: user:password@tcp(host:port)/database")
	f.StringVar(&o.zookeeper, "zookeeper", "", "HOST:PORT of a real ZooKeeper (default: one in memory with its protocol)")
	f.StringVar(&o.html, "html", "", "write the report to this file as one HTML page")
	f.StringSliceVar(&o.rules, "rules", nil, "run only these rules: "+strings.Join(ruleNames(), ","))
	completeFlag(cmd, "rules", ruleNames()...)
	f.DurationVar(&o.cfg.Lease, "lease", o.cfg.Lease, "lease of all rules that have one")
	f.BoolVar(&o.cfg.Own, "own", false, "run each rule with its own defaults (set --limit to an hour)")
	f.IntVar(&o.cfg.Repeat, "repeat", o.cfg.Repeat, "maximum number of faults of each kind")
	f.DurationVar(&o.cfg.Limit, "limit", o.cfg.Limit, "time after which no fault begins; each rule gets at least one of each kind")
	f.DurationVar(&o.cfg.Act, "act", o.cfg.Act, "interval of the writes of a perceived leader")
	f.IntVar(&o.cfg.AtOnce, "at-once", o.cfg.AtOnce, "number of rules that run at the same time")
	return cmd
}

func ruleNames() (names []string) {
	for _, r := range lab.Rules() {
		names = append(names, r.Name)
	}
	return names
}

func (a *app) labElections(ctx context.Context, o labElections) (err error) {
	if len(o.rules) > 0 {
		o.cfg.Rules = nil
	}
	for _, name := range o.rules {
		rule, ok := lab.RuleNamed(name)
		if !ok {
			return usageError{fmt.Errorf("unknown rule %q in --rules (want one of %s)", name, strings.Join(ruleNames(), ", "))}
		}
		o.cfg.Rules = append(o.cfg.Rules, rule)
	}
	path, _, err := toolPath()
	if err != nil {
		return err
	}
	o.cfg.Spawn = func() *exec.Cmd {
		cmd := exec.Command(path, "lab", "candidate")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no death signal: it is sent when a thread ends, and Go ends threads
		return cmd
	}
	o.cfg.Version, o.cfg.Progress, o.cfg.ZooKeeper = version, a.stderr, o.zookeeper
	if o.cfg.DSN = o.db; o.db == supervisor.Embedded {
		o.cfg.DSN = "root@tcp(127.0.0.1:1)/conclave" // placeholder for Validate
	}
	if err := o.cfg.Validate(); err != nil {
		return usageError{err}
	}
	var end func() error
	if o.cfg.DSN, o.cfg.Database, end, err = a.labDatabase(ctx, o.db, o.zookeeper); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if o.cfg.Database == "" {
		if err := askDatabase(ctx, o.cfg.DSN, "SELECT VERSION()", &o.cfg.Database); ctx.Err() != nil {
			return errLabInterrupted
		} else if err != nil {
			return fmt.Errorf("--db: %w", err)
		}
	}
	report, err := lab.Elections(ctx, o.cfg)
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil && len(report.Rows) == 0:
		return errLabInterrupted
	}
	if err := a.show(report, report.Write); err != nil {
		return err
	}
	if o.html != "" {
		if err := writeFile(o.html, report.WriteHTML); err != nil {
			return err
		}
	}
	broken := report.Broken()
	if report.Interrupted {
		broken = append([]string{"interrupted: not all rules ran to their end"}, broken...)
	}
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "; "))
	}
	return nil
}

// labCandidateCommand is the process of one candidate, started by `lab
// elections`.
func (a *app) labCandidateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "candidate", Hidden: true, Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error { return lab.Candidate(cmd.Context(), os.Stdin, a.stdout) },
	}
}
