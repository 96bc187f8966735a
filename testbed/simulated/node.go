package simulated

import (
	"context"
	"math/rand/v2"
	"time"

	"conclave"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/inprocess"
	"conclave/internal/node"
	"conclave/testbed"
)

const (
	dbAddress   = testbed.Database + ":3306"
	metaPort    = ":9615"
	sessionPort = ":9603"
	dataPort    = ":9622"
	sofaPort    = ":9600"
)

// ports are those of the roles.
var ports = map[string]string{"meta": metaPort, "session": sessionPort, "data": dataPort}

// server makes the server of the role in a node's name, as in the role's program. rng is
// the node's own.
func (c *Cluster) server(p *process, rng *rand.Rand) (inprocess.Server, error) {
	network, log, now := c.net.Host(p.host), c.logger(p.host), c.clock(p.host)
	role := testbed.RoleOf(p.node.Name)
	if role == testbed.Database {
		ln, err := network.Listen(context.Background(), "tcp", dbAddress)
		if err != nil {
			return nil, err
		}
		return devdb.New(devdb.Config{Listener: ln, Tables: c.tables, Now: now, Logger: log, Around: c.interceptStatement, Rewrite: c.rewrite})
	}
	pace := 1 + drift*(2*rng.Float64()-1) // of the clock by which it measures durations
	return inprocess.Node{
		SofaListen: p.host + sofaPort,
		Config: node.Config{
			Node: p.node, Listen: p.host + ports[role], Advertise: p.advertise, Metas: c.metas, Insecure: true,
			Network: network, Logger: log, Rand: rng, Now: now, Trace: c.sink(p.host),
		},
		Lasts: func(d time.Duration) time.Duration { return time.Duration(float64(d) * pace) },
		Meta: inprocess.MetaNode{
			DSN: "root@tcp(" + dbAddress + ")/conclave", Takeover: termcas.Takeover(c.size.Takeover), Lease: c.size.Lease,
			Slots: c.size.Slots, Replicas: c.size.Replicas, ElectionRand: func() *rand.Rand { return c.stream(p.host + "/termcas") },
		},
	}.New(conclave.Role(role))
}

// address is where a node listens for others.
func (c *Cluster) address(name string) string {
	return name + ports[testbed.RoleOf(name)]
}
