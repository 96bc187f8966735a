package sim

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/chaos"
	"conclave/data"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/devdb"
	"conclave/internal/trace"
	"conclave/meta"
	"conclave/session"
	"conclave/sim/simnet"
	conclavesql "conclave/sql"
)

const (
	dbAddress   = chaos.Database + ":3306"
	metaPort    = ":9615"
	sessionPort = ":9603"
	dataPort    = ":9622"
)

// birth is what a process is given when it starts.
type birth struct {
	node    conclave.NodeID
	host    string
	network *simnet.Host
	rng     *rand.Rand
	log     hclog.Logger
	trace   trace.Sink
	now     func() time.Time
	pace    float64 // of its clock, against everybody's

	advertise string // instead of its own address, if it is not empty
}

// lasts is how long a duration takes by the process's own clock.
func (b birth) lasts(d time.Duration) time.Duration { return time.Duration(float64(d) * b.pace) }

// server makes what the node's name says, as its cmd does.
func (c *Cluster) server(b birth) (server, error) {
	switch role, _, _ := strings.Cut(b.node.Name, "-"); role {
	case chaos.Database:
		ln, err := b.network.Listen(context.Background(), "tcp", dbAddress)
		if err != nil {
			return nil, err
		}
		return devdb.New(devdb.Config{Listener: ln, Tables: c.tables, Now: b.now, Logger: b.log, Around: c.landing})
	case "meta":
		return c.newMeta(b)
	case "session":
		config := session.DefaultConfig()
		config.Node, config.Listen, config.Insecure, config.Metas = b.node, b.host+sessionPort, true, c.metas
		config.Network, config.Logger, config.Rand, config.Now, config.Trace = b.network, b.log, b.rng, b.now, b.trace
		config.Advertise = b.advertise
		for _, d := range []*time.Duration{&config.Beat, &config.ClientLease, &config.SessionGrace, &config.PushWindow, &config.DrainTimeout} {
			*d = b.lasts(*d)
		}
		return session.New(config)
	default:
		config := data.DefaultConfig()
		config.Node, config.Listen, config.Insecure, config.Metas = b.node, b.host+dataPort, true, c.metas
		config.Network, config.Logger, config.Rand, config.Now, config.Trace = b.network, b.log, b.rng, b.now, b.trace
		config.Advertise = b.advertise
		for _, d := range []*time.Duration{
			&config.Beat, &config.SessionGrace, &config.FinishTimeout, &config.DiffTimeout, &config.RepairEvery, &config.RepairAll,
		} {
			*d = b.lasts(*d)
		}
		return data.New(config)
	}
}

// metaNode is a meta server together with its database handle.
type metaNode struct {
	*meta.Server
	db   *conclavesql.DB
	lock conclavesql.Lock
}

func (c *Cluster) newMeta(b birth) (server, error) {
	lease := b.lasts(c.size.Lease)
	db, err := conclavesql.Open("root@tcp("+dbAddress+")/conclave", conclavesql.Options{Dial: b.network.DialContext, Deadline: lease / 6})
	if err != nil {
		return nil, err
	}
	lock := conclavesql.DefaultLock()
	strategy := func(ask meta.AskWitness) (elector.Strategy, error) {
		return termcas.New(termcas.Config{
			DB: db, Lock: lock, Takeover: termcas.Takeover(c.size.Takeover), Ask: ask,
			Rand: c.stream(b.host + "/termcas"), Logger: b.log.Named("termcas"), Trace: b.trace.Of(b.node),
		})
	}
	s, err := meta.New(meta.Config{
		Node: b.node, Listen: b.host + metaPort, Insecure: true, Metas: c.metas, Network: b.network, Logger: b.log, Rand: b.rng,
		Lease: lease, NodeLease: lease, Now: b.now, Trace: b.trace, Slots: c.size.Slots, Replicas: c.size.Replicas,
		Strategy: strategy, Store: conclavesql.NewStateStore(db, lock), History: conclavesql.NewHistory(db, lock), Statements: db.Statements,
	})
	return &metaNode{Server: s, db: db, lock: lock}, err
}

// Run migrates, as cmd/meta does, and serves.
func (m *metaNode) Run(ctx context.Context) error {
	defer m.db.Close()
	for m.migrate(ctx) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return m.Server.Run(ctx)
}

func (m *metaNode) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, conclavesql.MigrateTry)
	defer cancel()
	return m.db.Migrate(ctx, m.lock)
}

// up says that the server listens; before that it has no elector.
func (m *metaNode) up() bool {
	select {
	case <-m.Started():
		return true
	default:
		return false
	}
}
