package data

import (
	"cmp"
	"fmt"
	"time"

	"conclave"
	"conclave/internal/node"
	"conclave/wire/list"
)

// Config configures a data node. Start from DefaultConfig and set Node, Listen
// and Metas. Beat is also the time between two messages on a feed without
// changes.
type Config struct {
	node.Config

	// SessionGrace is how long the publishers of a lost session stay, and how
	// long unconfirmed removals stay marked. At least as long as the slowest
	// client takes to reconnect (a SOFA client takes 5 s or more). Default
	// 15 s.
	SessionGrace time.Duration
	// FinishTimeout is how long a successor waits for the old leader of a slot,
	// its feed included, before it asks the sessions instead, and after a crash
	// for the copies of other holders. Default 300 ms.
	FinishTimeout time.Duration
	// DiffTimeout limits one call to a session. A diff that a slot waits for is
	// tried again until the session answers or is gone. Default 1 s.
	DiffTimeout time.Duration
	// RepairEvery is the time within which a slot that a session wrote to is
	// compared with that session (six times that while the session keeps writing
	// to it and after the first time); RepairAll the time within which every slot is
	// compared with every session. RepairEvery must not be larger than
	// RepairAll. Defaults 6 s (the original's interval for everything) and
	// 5 min.
	RepairEvery time.Duration
	RepairAll   time.Duration
	// MaxListBytes is the size of the largest list that is sent to sessions, about, as
	// it is in memory. Default 256 MiB.
	MaxListBytes int64
}

// DefaultConfig returns a Config with every default. The caller sets Node and
// Metas.
func DefaultConfig() Config {
	return Config{
		Config:        node.Config{Listen: "127.0.0.1:9622"}.WithDefaults(),
		SessionGrace:  15 * time.Second,
		FinishTimeout: 300 * time.Millisecond,
		DiffTimeout:   time.Second,
		RepairEvery:   6 * time.Second,
		RepairAll:     5 * time.Minute,
		MaxListBytes:  list.MaxBytes,
	}
}

// withDefaults returns c with its zero fields set to the defaults.
func (c Config) withDefaults() Config { return node.Filled(c, DefaultConfig()) }

// Validate reports the first invalid field and the constraint that it violates.
// Zero fields stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.RepairAll < c.RepairEvery {
		return fmt.Errorf("RepairAll %s must be at least RepairEvery %s", c.RepairAll, c.RepairEvery)
	}
	return cmp.Or(c.Config.Validate(conclave.RoleData), node.Positive(c))
}
