// Data is the process that keeps publishers in memory, sharded in slots. See
// package data for what it does, and package cli for flags, signals and exit
// codes.
package main

import (
	"context"

	"github.com/spf13/pflag"

	"conclave"
	"conclave/data"
	"conclave/internal/cli"
)

func main() { cli.Main(process()) }

func process() cli.Process {
	c := data.DefaultConfig()
	return cli.Process{
		Role: conclave.RoleData, Short: "Keeps publishers in memory, sharded in slots",
		Listen: "127.0.0.1:9622",
		// The heap is small and long-lived: memory costs more than collector
		// time.
		GCPercent: 50,
		Flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&c.Metas, "meta", nil, "addresses of meta nodes (required; one that answers is enough)")
			f.DurationVar(&c.Beat, "beat", c.Beat, "time between two beats; at most a third of the cluster's node lease")
			f.DurationVar(&c.SessionGrace, "session-grace", c.SessionGrace, "how long the publishers of a lost session stay; at least the slowest client's reconnect")
			f.DurationVar(&c.FinishTimeout, "finish-timeout", c.FinishTimeout, "how long a successor waits for a slot's old leader before it asks the sessions instead")
			f.DurationVar(&c.DiffTimeout, "diff-timeout", c.DiffTimeout, "time limit of one comparison with a session")
			f.DurationVar(&c.RepairEvery, "repair-every", c.RepairEvery, "time within which a slot that was written to is compared with its session")
			f.DurationVar(&c.RepairAll, "repair-all", c.RepairAll, "time within which every slot is compared with every session; at least --repair-every")
		},
		New: func(_ context.Context, common cli.Common) (cli.Server, error) {
			c.Node, c.Listen, c.Advertise, c.DataCenter = common.Node, common.Listen, common.Advertise, common.DataCenter
			c.Token, c.Insecure, c.Network, c.Logger = common.Token, common.Insecure, common.Network, common.Logger
			c.Rand, c.Now, c.Version, c.Trace = common.Rand, common.Now, common.Version, common.Trace
			return data.New(c)
		},
	}
}
