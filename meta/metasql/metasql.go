package metasql

import (
	"context"
	"math/rand/v2"

	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/logging"
	"conclave/meta"
	conclavesql "conclave/sql"
)

// Config configures a Node.
type Config struct {
	// Config is that of the server. New sets Strategy, Store, History and Database.
	meta.Config
	DSN string
	// Takeover is how a dead leader is detected; the default is termcas's.
	Takeover termcas.Takeover
	// Sofa elects with the statements of SOFARegistry.
	Sofa bool
	// ElectionRand, if not nil, returns the random source of the election when it
	// begins; nil means Rand.
	ElectionRand func() *rand.Rand
}

// Node is a meta server with its connections to MySQL.
type Node struct {
	*meta.Server
	DB   *conclavesql.DB // statements of the election and of the leader
	Lock conclavesql.Lock

	readers *conclavesql.DB
}

// New returns a meta node. It connects when Run, or a statement of DB, needs it to; the
// schema must be up to date when it runs. Close must follow if Run is not called.
func New(c Config) (*Node, error) {
	beat := c.Beat // its default depends on the lease
	c.Config.Config = c.Config.Config.WithDefaults()
	c.Beat = beat
	lock := conclavesql.Lock{DataCenter: c.DataCenter, Name: conclavesql.DefaultLockName}
	if err := lock.Validate(); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	options := conclavesql.Options{Dial: c.Network.DialContext, Deadline: c.ElectionBeat() / 2}
	db, err := conclavesql.Open(c.DSN, options)
	if err != nil {
		return nil, err
	}
	n := &Node{DB: db, Lock: lock}
	// Readers of the history have a connection of their own.
	options.MaxConns = 1
	if n.readers, err = conclavesql.Open(c.DSN, options); err != nil {
		n.Close()
		return nil, err
	}
	c.Store, c.History, c.Database = conclavesql.NewStateStore(db, lock), conclavesql.NewHistory(n.readers, lock), db
	election := termcas.Config{
		DB: db, Lock: lock, Takeover: c.Takeover, Rand: c.Rand,
		Logger: logging.Slog(c.Logger.Named("termcas")), Trace: meta.TraceElection(c.Trace, c.Node),
	}
	c.Strategy = func(ask meta.AskWitness) (elector.Strategy, error) {
		election.Ask = ask
		if c.ElectionRand != nil {
			election.Rand = c.ElectionRand()
		}
		if c.Sofa {
			return termcas.NewSofa(election)
		}
		return termcas.New(election)
	}
	if n.Server, err = meta.New(c.Config); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close closes the connections.
func (n *Node) Close() {
	n.DB.Close()
	if n.readers != nil {
		n.readers.Close()
	}
}

// Run is that of meta.Server. It closes the connections when the server has ended.
func (n *Node) Run(ctx context.Context) error {
	defer n.Close()
	return n.Server.Run(ctx)
}
