// Meta is the process that elects a leader through MySQL and keeps the leases
// of session and data nodes, the slot table, the blacklist and the switches.
// See package meta for what it does, and package cli for flags, signals and
// exit codes.
package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/internal/logging"
	"conclave/meta"
	conclavesql "conclave/sql"
)

func main() { cli.Main(process()) }

func process() cli.Process {
	c := meta.DefaultConfig()
	var db database
	var profile, takeover string
	var flags *pflag.FlagSet
	return cli.Process{
		Role: conclave.RoleMeta, Short: "Run a meta node: elects a leader through MySQL",
		Config: &c.Config, Secrets: []string{"dsn"},
		Flags: func(f *pflag.FlagSet) {
			flags = f
			db.bind(f)
			f.StringSliceVar(&c.Metas, "meta", nil, "addresses of the other meta nodes (otherwise found through the database)")
			f.DurationVar(&c.Lease, "lease", c.Lease, "how long the leadership lasts without a renewal")
			f.DurationVar(&c.Beat, "beat", 0, "time between two renewals; at most a third of --lease (default: a third)")
			f.DurationVar(&c.NodeLease, "node-lease", c.NodeLease, "how long a silent session or data node stays a member; at least three --beat")
			f.IntVar(&c.Slots, "slots", c.Slots, "slots of a table made from nothing; a power of two")
			f.IntVar(&c.Replicas, "replicas", c.Replicas, "copies of a slot, the leader's included")
			f.StringVar(&takeover, "takeover", string(termcas.Witness), "witness: a killed leader is replaced within milliseconds; lease: when its lease has expired")
			f.StringVar(&profile, "profile", "conclave", "conclave, or sofa: the original's timings and statements")
			f.BoolVar(&c.Observer, "observer", false, "never compete for the leadership")
		},
		New: func(ctx context.Context) (cli.Server, error) {
			if err := applyProfile(profile, flags, &c, &takeover); err != nil {
				return nil, err
			}
			mode, err := termcas.ParseTakeover(takeover)
			if err != nil {
				return nil, fmt.Errorf("--takeover: %w", err)
			}
			lock := conclavesql.Lock{DataCenter: c.DataCenter, Name: conclavesql.DefaultLockName}
			if err := lock.Validate(); err != nil {
				return nil, err
			}
			if err := c.Validate(); err != nil {
				return nil, err
			}
			pool, err := db.open(ctx, c.Config, lock, c.ElectionBeat()/2)
			if err != nil {
				return nil, err
			}
			// Readers of the history have a connection of their own.
			readers, err := db.pool(c.Config, conclavesql.Options{Deadline: c.ElectionBeat() / 2, MaxConns: 1})
			if err != nil {
				pool.Close()
				return nil, err
			}
			c.Store, c.History, c.Database = conclavesql.NewStateStore(pool, lock), conclavesql.NewHistory(readers, lock), pool
			c.Strategy = func(ask meta.AskWitness) (elector.Strategy, error) {
				election := termcas.Config{DB: pool, Lock: lock, Takeover: mode, Ask: ask, Rand: c.Rand, Logger: logging.Slog(c.Logger.Named("termcas")), Trace: meta.TraceElection(c.Trace, c.Node)}
				if profile == "sofa" {
					return termcas.NewSofa(election)
				}
				return termcas.New(election)
			}
			server, err := meta.New(c)
			if err != nil {
				pool.Close()
				readers.Close()
				return nil, err
			}
			return &withDatabase{server, []*conclavesql.DB{pool, readers}}, nil
		},
	}
}
