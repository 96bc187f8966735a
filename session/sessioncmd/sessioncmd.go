package sessioncmd

import (
	"context"

	"github.com/spf13/pflag"

	"conclave"
	"conclave/internal/cli"
	"conclave/session"
)

// Process returns the program, for cmd/session and `conclave session`.
func Process() cli.Process {
	c := session.DefaultConfig()
	return cli.Process{
		Role: conclave.RoleSession, Short: "Serve clients: hold their registrations and push lists",
		Config: &c.Config,
		Flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&c.Metas, "meta", nil, "addresses of meta nodes (required; one that answers is enough)")
			f.DurationVar(&c.Beat, "beat", c.Beat, "time between two beats to meta, and between two of a data node's feed")
			f.DurationVar(&c.ClientLease, "client-lease", c.ClientLease, "how long the registrations of a broken connection are kept for their client")
			f.DurationVar(&c.SessionGrace, "session-grace", c.SessionGrace, "how long tombstones are kept and pushes may be held back (the same value as on the data nodes); --client-lease is at most two thirds of it")
			f.DurationVar(&c.PushWindow, "push-window", c.PushWindow, "changes of a datum within this time after a push are merged, unless the switch push-window-ms overrides it")
			f.IntVar(&c.MaxSubscriptions, "max-subscriptions", c.MaxSubscriptions, "subscriptions of one client")
			f.IntVar(&c.MaxRegistrations, "max-registrations", c.MaxRegistrations, "registrations of one client")
			f.Int64Var(&c.MaxClientBytes, "max-client-bytes", c.MaxClientBytes, "bytes of memory that the registrations and subscriptions of one client may take, about")
			f.Int64Var(&c.MaxAddressBytes, "max-address-bytes", c.MaxAddressBytes, "bytes that those of all clients from one address may take (the clients of one machine, or behind one proxy)")
			f.Int64Var(&c.MaxOutboxBytes, "max-outbox-bytes", c.MaxOutboxBytes, "bytes of answers that may wait for a client that does not read them, and of old lists that it is sent changes of")
			f.Int64Var(&c.MaxListBytes, "max-list-bytes", c.MaxListBytes, "bytes of the largest list that is read and pushed, about, as it is in memory; the same value as on the data nodes")
			f.StringVar(&c.ConsulListen, "consul-listen", "", "HOST:PORT on which clients of Consul are answered (Consul's is 127.0.0.1:8500)")
			f.StringVar(&c.DNSListen, "dns-listen", "", "HOST:PORT on which NAME.service.consul is answered, over TCP and UDP, without a token (Consul's is 127.0.0.1:8600)")
			f.StringVar(&c.SofaListen, "sofa-listen", "", "HOST:PORT on which clients of SOFARegistry are served (SOFARegistry's is port 9600)")
			f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long a graceful stop waits for clients to move")
		},
		New: func(context.Context) (cli.Server, error) { return session.New(c) },
	}
}
