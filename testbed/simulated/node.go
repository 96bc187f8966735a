package simulated

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/inprocess"
	"conclave/internal/node"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

const (
	dbAddress   = testbed.Database + ":3306"
	metaPort    = ":9615"
	sessionPort = ":9603"
	dataPort    = ":9622"
)

// ports are those of the roles.
var ports = map[string]string{"meta": metaPort, "session": sessionPort, "data": dataPort}

// nodeSpec describes a process that is to be started.
type nodeSpec struct {
	node    conclave.NodeID
	host    string
	network *simnet.Host
	rng     *rand.Rand
	log     hclog.Logger
	trace   trace.Sink
	now     func() time.Time
	pace    float64 // multiplies its durations: the drift of its clock

	advertise string // instead of its own address, if it is not empty
}

// lasts returns the true length of a duration that the process measures with
// its own clock.
func (n nodeSpec) lasts(d time.Duration) time.Duration {
	return time.Duration(float64(d) * n.pace)
}

// server makes the server of the role in the node's name, as in the role's program.
func (c *Cluster) server(spec nodeSpec) (inprocess.Server, error) {
	role := testbed.RoleOf(spec.node.Name)
	if role == testbed.Database {
		ln, err := spec.network.Listen(context.Background(), "tcp", dbAddress)
		if err != nil {
			return nil, err
		}
		return devdb.New(devdb.Config{Listener: ln, Tables: c.tables, Now: spec.now, Logger: spec.log, Around: c.interceptStatement, Rewrite: c.rewrite})
	}
	return inprocess.Node{
		Config: node.Config{
			Node: spec.node, Listen: spec.host + ports[role], Advertise: spec.advertise, Metas: c.metas, Insecure: true,
			Network: spec.network, Logger: spec.log, Rand: spec.rng, Now: spec.now, Trace: spec.trace,
		},
		Lasts: spec.lasts,
		Meta: inprocess.MetaNode{
			DSN: "root@tcp(" + dbAddress + ")/conclave", Takeover: termcas.Takeover(c.size.Takeover), Lease: c.size.Lease,
			Slots: c.size.Slots, Replicas: c.size.Replicas, ElectionRand: func() *rand.Rand { return c.stream(spec.host + "/termcas") },
		},
	}.New(conclave.Role(role))
}

// address is where a node listens for others.
func (c *Cluster) address(name string) string {
	return name + ports[testbed.RoleOf(name)]
}
