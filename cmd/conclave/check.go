package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"conclave/internal/supervisor"
	conclavesql "conclave/sql"
)

// What is wrong with what a command was told is said before anything is started, and
// before a folder is made.

// refuseNegative: no number and no duration of any command has a meaning below zero.
func refuseNegative(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		switch kind := f.Value.Type(); {
		case err != nil || kind != "int" && kind != "duration":
		case strings.HasPrefix(f.Value.String(), "-"):
			err = usageError{fmt.Errorf("--%s %s is below zero", f.Name, f.Value)}
		}
	})
	return err
}

// checkDatabase reads --db: embedded, or a DSN. Nobody is dialled.
func checkDatabase(db string) error {
	if db == supervisor.Embedded {
		return nil
	}
	opened, err := conclavesql.Open(db, conclavesql.Options{}) // connects at its first statement
	if err != nil {
		return usageError{fmt.Errorf("--db: %w, or %s", err, supervisor.Embedded)}
	}
	return opened.Close()
}

// leastLease is the shortest that an election can be told.
const leastLease = 100 * time.Millisecond

// What a meta takes (meta.Config, and cmd/meta for the profile sofa): it would refuse the
// rest, too, but as a line in the log of a process that has ended.
const (
	mostReplicas  = 16
	usualLease    = 3 * time.Second        // of a leader and of a node, when none is given
	sofaLease     = 20 * time.Second       // the same, with the profile sofa
	sofaBeat      = time.Second            // whatever the lease is; else a third of it
	beatsPerLease = 3                      // at least, in both leases
	tableSettle   = 250 * time.Millisecond // shorter than a node's lease
)

// metasAreTold says that the environment, or a file that it names, tells the metas
// more than the flags do.
func metasAreTold() bool {
	return slices.ContainsFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, metaEnvironment) })
}

const metaEnvironment = "CONCLAVE_META_"

// checkUp says which of the flags of `up` cannot be, alone or with another.
func checkUp(flags *pflag.FlagSet, cfg supervisor.Config) error {
	zero := func(name string, is bool) bool { return is && flags.Changed(name) } // else: the meta's default
	lease, nodeLease := usualLease, usualLease
	if cfg.Profile == "sofa" {
		lease, nodeLease = sofaLease, sofaLease
	}
	if cfg.Lease != 0 {
		lease = cfg.Lease
	}
	if cfg.NodeLease != 0 {
		nodeLease = cfg.NodeLease
	}
	beat := lease / beatsPerLease
	if cfg.Profile == "sofa" {
		beat = sofaBeat
	}
	told := metasAreTold() // then the flags are not all that counts: the metas judge how they fit
	wrong := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	switch {
	case zero("slots", cfg.Slots == 0):
		return wrong("--slots 0: want a power of two from 1 to 16384")
	case zero("replicas", cfg.Replicas == 0), cfg.Replicas > mostReplicas:
		return wrong("--replicas %d: want 1 to %d, the leader included", cfg.Replicas, mostReplicas)
	case zero("lease", cfg.Lease == 0), lease < leastLease:
		return wrong("--lease %v: want at least %v", cfg.Lease, leastLease)
	case !told && beat > lease/beatsPerLease:
		return wrong("--lease %v: want at least %v with --profile sofa, whose leader renews every %v", cfg.Lease, beatsPerLease*beat, beat)
	case zero("node-lease", cfg.NodeLease == 0), !told && nodeLease <= tableSettle:
		return wrong("--node-lease %v: want more than %v", cfg.NodeLease, tableSettle)
	case !told && nodeLease < beatsPerLease*beat:
		return wrong("--node-lease %v is too short for --lease %v: want at least %v", nodeLease, lease, (beatsPerLease * beat).Round(time.Microsecond))
	case cfg.Profile == "sofa" && cfg.Takeover == "witness":
		return wrong("--takeover witness and --profile sofa exclude each other: the original's statements have no witness")
	}
	return checkDatabase(cfg.DB)
}
