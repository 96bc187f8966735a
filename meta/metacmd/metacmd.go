package metacmd

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"conclave"
	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/meta"
	"conclave/meta/metasql"
)

// Process returns the program, for cmd/meta and `conclave meta`.
func Process() cli.Process {
	c := metasql.Config{Config: meta.DefaultConfig()}
	var db database
	var profile, takeover string
	var flags *pflag.FlagSet
	return cli.Process{
		Role: conclave.RoleMeta, Short: "Run a meta node: elects a leader through MySQL",
		Config: &c.Config.Config, Secrets: []string{"dsn"},
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
			if err := applyProfile(profile, flags, &c.Config, &takeover); err != nil {
				return nil, err
			}
			var err error
			if c.Takeover, err = termcas.ParseTakeover(takeover); err != nil {
				return nil, fmt.Errorf("--takeover: %w", err)
			}
			if err := c.Validate(); err != nil {
				return nil, err
			}
			if c.DSN, err = cli.DSN(db.dsn, db.file); err != nil {
				return nil, err
			}
			c.Sofa = profile == "sofa"
			n, err := metasql.New(c)
			if err != nil {
				return nil, err
			}
			if err := db.prepare(ctx, n, c.Logger); err != nil {
				n.Close()
				return nil, err
			}
			return n, nil
		},
	}
}
