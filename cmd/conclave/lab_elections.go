package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
	"conclave/lab"
)

// labElections is what `lab elections` was told.
type labElections struct {
	db, zookeeper, html string
	rules               []string
	cfg                 lab.Config
}

func (a *app) labElectionsCommand() *cobra.Command {
	var o labElections
	cmd := &cobra.Command{
		Use: "elections", Short: fmt.Sprintf("Elect by %d rules under the same faults, and compare", len(lab.Rules())), Args: want(),
		Long: `Plays Conclave's strategies, the articles' own forms and the rules of other projects,
each with three processes of its own on one database, and breaks their leaders: kill -9,
SIGTERM, SIGSTOP, and a cut between the leader and its store. It prints how long nobody
led, what that cost, for how long two believed to lead, and which of their writes landed;
in under three minutes.

A database of --db is given tables whose names begin with lab_, and those of the
strategies; they stay. Exit 1 when a rule could not be played, or when one of Conclave's
did not keep what it promises. Ctrl-C prints what was measured until then; exit 1, too.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.labElections(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.db, "db", supervisor.Embedded, "embedded, or a DSN: user:password@tcp(host:port)/database")
	f.StringVar(&o.zookeeper, "zookeeper", "", "HOST:PORT of a real ZooKeeper (default: a tree in memory, over its protocol)")
	f.StringVar(&o.html, "html", "", "write the report to this file, as a page that needs nothing but itself")
	f.StringSliceVar(&o.rules, "rules", nil, "play only these: "+strings.Join(ruleNames(), ","))
	f.DurationVar(&o.cfg.Lease, "lease", time.Second, "of all rules that can be told one")
	f.BoolVar(&o.cfg.Own, "own", false, "each rule plays with its own defaults: give --limit an hour")
	f.IntVar(&o.cfg.Repeat, "repeat", 10, "at most so many faults of each kind")
	f.DurationVar(&o.cfg.Limit, "limit", 160*time.Second, "begin no fault after that; each rule gets at least one of each kind")
	f.DurationVar(&o.cfg.Act, "act", 20*time.Millisecond, "between two writes of who believes to lead")
	f.IntVar(&o.cfg.AtOnce, "at-once", 7, "rules that play at the same time")
	return cmd
}

func ruleNames() (names []string) {
	for _, r := range lab.Rules() {
		names = append(names, r.Name)
	}
	return names
}

func (a *app) labElections(ctx context.Context, o labElections) (err error) {
	for _, name := range o.rules {
		rule, ok := lab.RuleNamed(name)
		if !ok {
			return usageError{fmt.Errorf("--rules %q is none of %s", name, strings.Join(ruleNames(), ", "))}
		}
		o.cfg.Rules = append(o.cfg.Rules, rule)
	}
	path, _, err := toolPath()
	if err != nil {
		return err
	}
	o.cfg.Spawn = func() *exec.Cmd {
		cmd := exec.Command(path, "lab", "candidate")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no death signal: it comes with the end of a thread, and Go ends some
		return cmd
	}
	o.cfg.Version, o.cfg.Progress, o.cfg.ZooKeeper = version, a.stderr, o.zookeeper
	if o.cfg.DSN = o.db; o.db == supervisor.Embedded {
		o.cfg.DSN = "root@tcp(127.0.0.1:1)/conclave" // for Validate, until there is one
	}
	if err := checkLab(o.db, o.zookeeper, o.html); err != nil {
		return err
	}
	if err := o.cfg.Validate(); err != nil {
		return usageError{err}
	}
	dsn, name, end, err := a.labDatabase(ctx, o.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if o.cfg.DSN, o.cfg.Database = dsn, name; name == "" {
		if o.cfg.Database, err = serverVersion(ctx, dsn); ctx.Err() != nil {
			return errLabInterrupted
		} else if err != nil {
			return err
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
		if err := writePage(o.html, report.WriteHTML); err != nil {
			return err
		}
	}
	broken := report.Broken()
	if report.Interrupted {
		broken = append([]string{"interrupted: not all rules were played to their end"}, broken...)
	}
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "; "))
	}
	return nil
}

// serverVersion asks a server what it is.
func serverVersion(ctx context.Context, dsn string) (version string, err error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", fmt.Errorf("ask the database of --db for its version: %w", err)
	}
	return version, nil
}

// labCandidateCommand is one candidate's process: `lab elections` starts it.
func (a *app) labCandidateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "candidate", Hidden: true, Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error { return lab.Candidate(cmd.Context(), os.Stdin, a.stdout) },
	}
}
