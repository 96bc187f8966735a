package versioncas_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/internal/mysqltest"
	"conclave/lab/article003/versioncas"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// world is a database with this package's tables.
type world struct{ *sqlworld.World }

// inBubble runs a test on the embedded server, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) { test(t, &world{w}) })
}

const key = "the leader"

// candidate is a Strategy whose rounds the test plays.
type candidate struct {
	*versioncas.Strategy
	db    *conclavesql.DB
	cable *electortest.Cable
	me    elector.Candidate
	last  elector.Term
}

// candidate makes a candidate.
func (w *world) candidate(t *testing.T, name string, lease time.Duration) *candidate {
	t.Helper()
	cable := electortest.NewCable(w.Dial)
	db := w.Open(t, cable.Dial, 10*time.Second)
	s, err := versioncas.New(versioncas.Config{DB: db, Key: key})
	require.NoError(t, err)
	return &candidate{Strategy: s, db: db, cable: cable, me: elector.Candidate{ID: conclave.NodeID{Name: name, Incarnation: "1"}, Lease: lease}}
}

// round plays a round as an Elector does, and reports whether this candidate leads.
func (c *candidate) round(t *testing.T) bool {
	t.Helper()
	term, err := c.Round(context.Background(), c.me, c.last)
	require.NoError(t, err)
	if term.Seen = c.last.Seen; !term.Same(c.last) {
		term.Seen = time.Now()
	}
	c.last, c.me.Holding, c.me.Highest = term, 0, max(c.me.Highest, term.Number)
	if term.Leader == c.me.ID {
		c.me.Holding = term.Number
	}
	return c.me.Holding != 0
}

// suite describes the repaired form.
var suite = sqlworld.Suite{
	Migrate: func(ctx context.Context, db *conclavesql.DB) error { return versioncas.Migrate(ctx, db, key) },
	Strategy: func(db *conclavesql.DB, logger *slog.Logger) (elector.Strategy, error) {
		return versioncas.New(versioncas.Config{DB: db, Key: key, Logger: logger})
	},
	Lock: "leader_version l ON l.elect_key = ?", Key: key, Term: "term",
}

// TestConformance runs the suite with the repaired form.
func TestConformance(t *testing.T) { suite.Run(t) }

func TestConfigIsChecked(t *testing.T) {
	db, err := conclavesql.Open("root@tcp(127.0.0.1:1)/x", conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	for name, cfg := range map[string]versioncas.Config{
		"DB is missing": {Key: "k"},
		`key ""`:        {DB: db},
		"ASCII":         {DB: db, Key: "schlüssel"},
	} {
		_, err := versioncas.New(cfg)
		require.ErrorContains(t, err, name)
		_, err = versioncas.NewService(versioncas.ServiceConfig{DB: cfg.DB, Key: cfg.Key})
		require.ErrorContains(t, err, name)
	}
	require.Error(t, versioncas.Migrate(t.Context(), db, ""))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.True(t, errors.Is(versioncas.Migrate(ctx, db, key), conclavesql.ErrUnavailable))
}
