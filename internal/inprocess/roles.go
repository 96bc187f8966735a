package inprocess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave"
	"conclave/data"
	"conclave/elector/termcas"
	"conclave/internal/node"
	"conclave/internal/sleep"
	"conclave/meta"
	"conclave/meta/metasql"
	"conclave/session"
	conclavesql "conclave/sql"
)

// Server is implemented by the servers of all roles, and by devdb.Server.
type Server interface {
	Run(ctx context.Context) error // until Shutdown, or ctx ends, which is a crash
	Shutdown(ctx context.Context) error
}

// Node is what a node of any role is made from.
type Node struct {
	// Config is the node's own. With the zero Beat it has its role's.
	node.Config
	// Lasts, if not nil, returns the true length of a duration that the node measures
	// with its own clock.
	Lasts func(time.Duration) time.Duration
	// ConsulListen is where a session answers clients of Consul; "" is nowhere.
	ConsulListen string
	// SofaListen is where a session serves clients of SOFARegistry; "" is nowhere.
	SofaListen string
	// Meta is used if the node is a meta.
	Meta MetaNode
}

// MetaNode is what a meta needs in addition. A zero field has the default of meta.Config.
type MetaNode struct {
	DSN             string // of the database, whose schema the meta brings up to date when it starts
	Takeover        termcas.Takeover
	Lease           time.Duration // and the node lease
	Settle          time.Duration
	Slots, Replicas int
	ElectionRand    func() *rand.Rand // see metasql.Config
}

// New makes the server of a role, configured as by the role's program.
func (n Node) New(role conclave.Role) (Server, error) {
	if n.Lasts == nil {
		n.Lasts = func(d time.Duration) time.Duration { return d }
	}
	switch role {
	case conclave.RoleMeta:
		lease := n.Lasts(n.Meta.Lease)
		m, err := metasql.New(metasql.Config{
			Config: meta.Config{Config: n.Config, Lease: lease, NodeLease: lease, Settle: n.Meta.Settle, Slots: n.Meta.Slots, Replicas: n.Meta.Replicas},
			DSN:    n.Meta.DSN, Takeover: n.Meta.Takeover, ElectionRand: n.Meta.ElectionRand,
		})
		if err != nil {
			return nil, err
		}
		return &Meta{m, n.Config.WithDefaults().Logger}, nil
	case conclave.RoleSession:
		c := session.DefaultConfig()
		n.common(&c.Config)
		c.ConsulListen, c.SofaListen = n.ConsulListen, n.SofaListen
		for _, d := range []*time.Duration{&c.Beat, &c.ClientLease, &c.SessionGrace, &c.PushWindow, &c.DrainTimeout} {
			*d = n.Lasts(*d)
		}
		return session.New(c)
	case conclave.RoleData:
		c := data.DefaultConfig()
		n.common(&c.Config)
		for _, d := range []*time.Duration{&c.Beat, &c.SessionGrace, &c.FinishTimeout, &c.DiffTimeout, &c.RepairEvery, &c.RepairAll} {
			*d = n.Lasts(*d)
		}
		return data.New(c)
	}
	return nil, fmt.Errorf("unknown role %q (want meta, data or session)", role)
}

// common sets the part that all roles share, whose Beat has a default.
func (n Node) common(c *node.Config) {
	beat := c.Beat
	*c = n.Config
	if c.Beat == 0 {
		c.Beat = beat
	}
}

// Meta is a meta node that brings the schema of its database up to date itself.
type Meta struct {
	*metasql.Node
	log hclog.Logger
}

// While its schema cannot be migrated, a meta tries every migrateAgain and logs every
// waitLogged.
const (
	migrateAgain = 50 * time.Millisecond
	waitLogged   = 5 * time.Second
)

// Run migrates the schema, however long the database is away, and serves. A schema that
// is newer than this program ends it.
func (m *Meta) Run(ctx context.Context) error {
	if err := m.prepare(ctx); err != nil {
		m.Close()
		return err
	}
	return m.Node.Run(ctx)
}

func (m *Meta) prepare(ctx context.Context) error {
	for began, logged := time.Now(), (time.Time{}); ; {
		try, cancel := context.WithTimeout(ctx, conclavesql.MigrateTry)
		err := m.DB.Migrate(try, m.Lock)
		cancel()
		if err == nil || errors.Is(err, conclavesql.ErrSchemaNewer) {
			return err
		}
		if ctx.Err() == nil && time.Since(logged) >= waitLogged {
			logged = time.Now()
			m.log.Warn("the database is not there yet", "waited", time.Since(began).Round(time.Second), "error", err)
		}
		if err := sleep.For(ctx, migrateAgain); err != nil {
			return err
		}
	}
}

// Up reports whether the meta listens. Before that it has no elector.
func (m *Meta) Up() bool {
	select {
	case <-m.Started():
		return true
	default:
		return false
	}
}
