package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	conclavesql "conclave/sql"
	"conclave/testbed/local/supervisor"
	"conclave/wire"
)

// The checks of this file run before a command starts a process or creates a
// folder.

// want returns the check of a command's arguments, given their names. A single NAME...
// stands for one or more, and [NAME] for at most one.
func want(names ...string) cobra.PositionalArgs {
	least, most, wanted := len(names), len(names), strings.Join(names, " ")
	if many, ok := strings.CutSuffix(wanted, "..."); ok {
		most, wanted = math.MaxInt, "one or more "+many
	} else if optional, ok := strings.CutPrefix(wanted, "["); ok {
		least, wanted = 0, "at most one "+strings.TrimSuffix(optional, "]")
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case least <= len(args) && len(args) <= most:
			return nil
		case most > 0:
			return fmt.Errorf("%s takes %s, got %s", commandName(cmd), wanted, plural(len(args), "argument"))
		}
		for _, arg := range args { // of a flag whose value may be left out
			if f := cmd.Flags().Lookup("console"); f != nil && f.Changed && strings.Contains(arg, ":") {
				return fmt.Errorf("%s takes no arguments; the address follows --console after a =: --console=%s", commandName(cmd), arg)
			}
		}
		return fmt.Errorf("%s takes no arguments, got %q", commandName(cmd), args)
	}
}

// group returns a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.OnlyValidArgs, RunE: needsSubcommand, DisableFlagsInUseLine: true}
	for _, sub := range subs {
		cmd.ValidArgs = append(cmd.ValidArgs, sub.Name())
	}
	cmd.AddCommand(subs...)
	return cmd
}

// needsSubcommand is run when no subcommand was given.
func needsSubcommand(cmd *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("%s needs a subcommand (one of %s)", commandName(cmd), strings.Join(cmd.ValidArgs, ", "))}
}

// needsMore is the annotation of a flag that has to be more than 0.
const needsMore = "conclave_needs_more"

// moreThan0 makes refuseNegative refuse 0 for these flags, too.
func moreThan0(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, needsMore, nil) // fails for an unknown flag only
	}
}

// refuseNegative returns an error for a negative number or duration, and for 0 if
// the flag needs more. No flag of any command may be negative.
func refuseNegative(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		_, positive := f.Annotations[needsMore]
		switch kind := f.Value.Type(); {
		case err != nil || kind != "int" && kind != "duration":
		case strings.HasPrefix(f.Value.String(), "-"), positive && strings.TrimSuffix(f.Value.String(), "s") == "0":
			err = usageError{fmt.Errorf("--%s is %s: want %s", f.Name, f.Value, either(positive, "more than 0", "0 or more"))}
		}
	})
	return err
}

// refuseUnwritable returns an error if the file of a report cannot be written,
// before what it would report is done. It changes no file, and leaves none.
func refuseUnwritable(flags *pflag.FlagSet) error {
	for _, name := range []string{"html", "report"} {
		f := flags.Lookup(name)
		if f == nil || f.Value.String() == "" {
			continue
		}
		file := f.Value.String()
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return usageError{fmt.Errorf("--%s %q: no folder %s", name, file, filepath.Dir(file))}
		}
		info, missing := os.Lstat(file)
		if missing == nil && !info.Mode().IsRegular() && !info.IsDir() {
			continue // a link, or a device such as /dev/stdout
		}
		out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return usageError{fmt.Errorf("--%s: %w", name, err)}
		}
		out.Close()
		if missing != nil {
			_ = os.Remove(file) // it is written again at the end
		}
	}
	return nil
}

// checkDatabase parses --db: "embedded" or a DSN. It does not connect.
func checkDatabase(db string) error {
	if db == supervisor.Embedded {
		return nil
	}
	if err := checkDSN(db); err != nil {
		return usageError{fmt.Errorf("--db: %w, or %s", err, supervisor.Embedded)}
	}
	return nil
}

// checkDSN parses a DSN.
func checkDSN(dsn string) error {
	db, err := conclavesql.Open(dsn, conclavesql.Options{}) // it connects at the first statement
	if err != nil {
		return err
	}
	return db.Close()
}

// waitingFunc is called while a database cannot be reached, with the reason.
type waitingFunc = func(waited time.Duration, why error)

// awaitDatabase calls attempt, which waits for a database, and warns with the reason
// while it does. wait is the value of --db-wait.
func (a *app) awaitDatabase(ctx context.Context, db *conclavesql.DB, wait time.Duration, attempt func(context.Context, waitingFunc) error) error {
	err := attempt(ctx, func(waited time.Duration, why error) {
		a.warn(failure{Code: string(wire.CodeUnavailable), Message: fmt.Sprintf("database %s not available after %v: %v", db.Addr(), waited, why)})
	})
	switch {
	case errors.Is(err, conclavesql.ErrUnavailable):
		return fmt.Errorf("database %s not available within --db-wait %v: %w: %w", db.Addr(), wait, errTimedOut, err)
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("database %s: %w", db.Addr(), err)
	}
	return err
}

// reachDatabase waits until the database of --db can be used; it changes nothing
// there. The metas wait for it too, but their reasons are lines in their logs.
func (a *app) reachDatabase(ctx context.Context, dsn string, wait time.Duration) error {
	if dsn == supervisor.Embedded {
		return nil
	}
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	err = a.awaitDatabase(ctx, db, wait, func(ctx context.Context, waiting waitingFunc) error {
		return db.CheckWithin(ctx, conclavesql.DefaultLock(), wait, waiting)
	})
	if errors.Is(err, conclavesql.ErrSchemaOlder) {
		return nil // the supervisor migrates it
	}
	return err
}

// leastLease is the shortest lease of an election.
const leastLease = 100 * time.Millisecond

// The limits of a meta (meta.Config, and meta/metacmd for the profile sofa). The
// meta checks them as well, but its error would only be a line in the log of a
// process that ended.
const (
	mostReplicas  = 16
	usualLease    = 3 * time.Second        // default of a leader's and a node's lease
	sofaLease     = 20 * time.Second       // default with the profile sofa
	sofaBeat      = time.Second            // for any lease; without the profile a third of the lease
	beatsPerLease = 3                      // minimum, for both leases
	tableSettle   = 250 * time.Millisecond // shorter than a node's lease
)

// checkUp returns an error for invalid flags, or combinations of flags, of
// `up`.
func checkUp(flags *pflag.FlagSet, cfg supervisor.Config) error {
	zero := func(name string, is bool) bool { return is && flags.Changed(name) } // if not set, the meta's default applies
	lease, nodeLease := cmp.Or(cfg.Lease, usualLease), cmp.Or(cfg.NodeLease, usualLease)
	beat := lease / beatsPerLease
	if cfg.Profile == "sofa" {
		lease, nodeLease, beat = cmp.Or(cfg.Lease, sofaLease), cmp.Or(cfg.NodeLease, sofaLease), sofaBeat
	}
	// Settings of metas in the environment count, too: then the metas themselves check combinations.
	environment := slices.ContainsFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CONCLAVE_META_") })
	wrong := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	switch {
	case zero("slots", cfg.Slots == 0):
		return wrong("--slots 0: want a power of two from 1 to 16384")
	case zero("replicas", cfg.Replicas == 0), cfg.Replicas > mostReplicas:
		return wrong("--replicas %d: want 1 to %d, including the leader", cfg.Replicas, mostReplicas)
	case zero("lease", cfg.Lease == 0), lease < leastLease:
		return wrong("--lease %v: want at least %v", cfg.Lease, leastLease)
	case !environment && beat > lease/beatsPerLease:
		return wrong("--lease %v: want at least %v with --profile sofa, whose leader renews every %v", cfg.Lease, beatsPerLease*beat, beat)
	case zero("node-lease", cfg.NodeLease == 0), !environment && nodeLease <= tableSettle:
		return wrong("--node-lease %v: want more than %v", cfg.NodeLease, tableSettle)
	case !environment && nodeLease < beatsPerLease*beat:
		return wrong("--node-lease %v is too short for --lease %v: want at least %v", nodeLease, lease, (beatsPerLease * beat).Round(time.Microsecond))
	case cfg.Sessions == 0 && cfg.Datas > 0:
		return wrong("--session-nodes 0: want at least 1, since clients reach the registry through sessions, or --data-nodes 0 as well, for metas only")
	case cfg.Profile == "sofa" && cfg.Takeover == "witness":
		return wrong("--takeover witness and --profile sofa exclude each other: the statements of SOFARegistry have no witness")
	}
	return checkDatabase(cfg.DB)
}
