package datacmd

import (
	"context"

	"github.com/spf13/pflag"

	"conclave"
	"conclave/data"
	"conclave/internal/cli"
)

// Process returns the program, for cmd/data and `conclave data`.
func Process() cli.Process {
	c := data.DefaultConfig()
	return cli.Process{
		Role: conclave.RoleData, Short: "Keeps publishers in memory, sharded in slots",
		Config: &c.Config,
		Flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&c.Metas, "meta", nil, "addresses of meta nodes (required; one that answers is enough)")
			f.DurationVar(&c.Beat, "beat", c.Beat, "time between two beats; at most a third of the cluster's node lease")
			f.DurationVar(&c.SessionGrace, "session-grace", c.SessionGrace, "how long the publishers of a lost session stay; at least the slowest client's reconnect")
			f.DurationVar(&c.FinishTimeout, "finish-timeout", c.FinishTimeout, "how long a successor waits for a slot's old leader before it asks the sessions instead")
			f.DurationVar(&c.DiffTimeout, "diff-timeout", c.DiffTimeout, "time limit of one comparison with a session")
			f.DurationVar(&c.RepairEvery, "repair-every", c.RepairEvery, "time within which a slot that was written to is compared with its session")
			f.DurationVar(&c.RepairAll, "repair-all", c.RepairAll, "time within which every slot is compared with every session; at least --repair-every")
			f.Int64Var(&c.MaxListBytes, "max-list-bytes", c.MaxListBytes, "bytes of the largest list that is sent to sessions, about, as it is in memory; the same value as on the sessions")
		},
		New: func(context.Context) (cli.Server, error) { return data.New(c) },
	}
}
