package inprocess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

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
		return &Meta{m}, nil
	case conclave.RoleSession:
		c := session.DefaultConfig()
		n.common(&c.Config)
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
type Meta struct{ *metasql.Node }

// migrateAgain is the time between two attempts while the database is away.
const migrateAgain = 50 * time.Millisecond

// Run migrates the schema, however long the database is away, and serves. It returns any
// other error of the migration, such as that of a schema which is newer than this program.
func (m *Meta) Run(ctx context.Context) error {
	for {
		err := m.migrate(ctx)
		if err == nil {
			return m.Node.Run(ctx)
		}
		if ctx.Err() == nil && !errors.Is(err, conclavesql.ErrUnavailable) {
			m.Close()
			return err
		}
		if err := sleep.For(ctx, migrateAgain); err != nil {
			m.Close()
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

func (m *Meta) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, conclavesql.MigrateTry)
	defer cancel()
	return m.DB.Migrate(ctx, m.Lock)
}
