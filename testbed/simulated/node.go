package simulated

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/data"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/logging"
	"conclave/internal/node"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/meta"
	"conclave/session"
	conclavesql "conclave/sql"
	"conclave/testbed"
	"conclave/testbed/simulated/simnet"
)

const (
	dbAddress   = testbed.Database + ":3306"
	metaPort    = ":9615"
	sessionPort = ":9603"
	dataPort    = ":9622"
)

// address is where a node listens for others.
func (c *Cluster) address(name string) string {
	switch testbed.RoleOf(name) {
	case "meta":
		return name + metaPort
	case "session":
		return name + sessionPort
	}
	return name + dataPort
}

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

// server makes the server of the role in the node's name, configured as in the
// role's command.
func (c *Cluster) server(spec nodeSpec) (server, error) {
	switch testbed.RoleOf(spec.node.Name) {
	case testbed.Database:
		ln, err := spec.network.Listen(context.Background(), "tcp", dbAddress)
		if err != nil {
			return nil, err
		}
		return devdb.New(devdb.Config{Listener: ln, Tables: c.tables, Now: spec.now, Logger: spec.log, Around: c.interceptStatement, Rewrite: c.rewrite})
	case "meta":
		return c.newMeta(spec)
	case "session":
		config := session.DefaultConfig()
		config.Config = c.common(spec, sessionPort, config.Beat)
		for _, d := range []*time.Duration{&config.Beat, &config.ClientLease, &config.SessionGrace, &config.PushWindow, &config.DrainTimeout} {
			*d = spec.lasts(*d)
		}
		return session.New(config)
	default:
		config := data.DefaultConfig()
		config.Config = c.common(spec, dataPort, config.Beat)
		for _, d := range []*time.Duration{
			&config.Beat, &config.SessionGrace, &config.FinishTimeout, &config.DiffTimeout, &config.RepairEvery, &config.RepairAll,
		} {
			*d = spec.lasts(*d)
		}
		return data.New(config)
	}
}

// common returns the part of a node's configuration that all roles share.
func (c *Cluster) common(spec nodeSpec, port string, beat time.Duration) node.Config {
	return node.Config{
		Node: spec.node, Listen: spec.host + port, Advertise: spec.advertise, Metas: c.metas, Insecure: true, Beat: beat,
		Network: spec.network, Logger: spec.log, Rand: spec.rng, Now: spec.now, Trace: spec.trace,
	}
}

// metaNode is a meta server with its database handle.
type metaNode struct {
	*meta.Server
	db   *conclavesql.DB
	lock conclavesql.Lock
}

func (c *Cluster) newMeta(spec nodeSpec) (server, error) {
	lease := spec.lasts(c.size.Lease)
	db, err := conclavesql.Open("root@tcp("+dbAddress+")/conclave", conclavesql.Options{Dial: spec.network.DialContext, Deadline: lease / 6})
	if err != nil {
		return nil, err
	}
	lock := conclavesql.DefaultLock()
	strategy := func(ask meta.AskWitness) (elector.Strategy, error) {
		return termcas.New(termcas.Config{
			DB: db, Lock: lock, Takeover: termcas.Takeover(c.size.Takeover), Ask: ask,
			Rand: c.stream(spec.host + "/termcas"), Logger: logging.Slog(spec.log.Named("termcas")), Trace: meta.TraceElection(spec.trace, spec.node),
		})
	}
	s, err := meta.New(meta.Config{
		Config: c.common(spec, metaPort, 0),
		Lease:  lease, NodeLease: lease, Slots: c.size.Slots, Replicas: c.size.Replicas,
		Strategy: strategy, Store: conclavesql.NewStateStore(db, lock), History: conclavesql.NewHistory(db, lock), Database: db,
	})
	return &metaNode{Server: s, db: db, lock: lock}, err
}

// Run migrates the schema, as cmd/meta does, and serves.
func (m *metaNode) Run(ctx context.Context) error {
	defer m.db.Close()
	for m.migrate(ctx) != nil {
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return m.Server.Run(ctx)
}

func (m *metaNode) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, conclavesql.MigrateTry)
	defer cancel()
	return m.db.Migrate(ctx, m.lock)
}

// up reports whether the server listens. Before that it has no elector.
func (m *metaNode) up() bool {
	select {
	case <-m.Started():
		return true
	default:
		return false
	}
}
