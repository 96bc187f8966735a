package oversell

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"conclave/elector/zklatch/memtree"
	conclavesql "conclave/sql"
)

// Config is a run of the lab. DSN is required; DefaultConfig has the article's shop.
type Config struct {
	DSN      string // a MySQL database in which tables may be made
	Database string // what it is called in the report

	Buyers int // more than items
	Items  int // at least one
	// Workers are the processes among which the buyers are spread. At least two: one
	// alone has nobody to race with.
	Workers int
	// Think is the longest that a buyer thinks between reading and writing: each draws
	// his own. The article's buyers think up to a second; with a lock the sale then lasts
	// as long as all thoughts together.
	Think time.Duration
	Seed  uint64 // of the thoughts

	// ZooKeeper is the address of a real one, for the locks that are built on it. Empty:
	// a tree in memory.
	ZooKeeper string
	// Only names the ways to play; none: all.
	Only []string
	// Limit is how long one way may take. Default two minutes.
	Limit time.Duration

	// AfterRead is called by each buyer who has read the stock, before he thinks: tests
	// let all of them read before one writes. It may wait.
	AfterRead func(ctx context.Context, way string, buyer int)
	// Progress hears what is done; nil: nobody listens.
	Progress io.Writer

	onTree func(*memtree.Server) // a test's look at the tree in memory; nil: nobody looks
}

// DefaultConfig is the article's shop; only its buyers think faster.
func DefaultConfig() Config {
	return Config{Buyers: 1500, Items: 100, Workers: 6, Think: 20 * time.Millisecond, Seed: 1}
}

// ErrConfig: a Config that cannot be played.
var ErrConfig = errors.New("oversell")

// Validate names what cannot be.
func (c Config) Validate() error {
	switch {
	case c.DSN == "":
		return fmt.Errorf("%w: DSN is missing", ErrConfig)
	case c.Items < 1:
		return fmt.Errorf("%w: %d items: want at least 1", ErrConfig, c.Items)
	case c.Buyers <= c.Items:
		return fmt.Errorf("%w: %d buyers of %d items: want more than there are items, or there is nothing to sell twice", ErrConfig, c.Buyers, c.Items)
	case c.Workers < 2:
		return fmt.Errorf("%w: %d workers: want at least 2, who race", ErrConfig, c.Workers)
	case c.Think < 0 || c.Think > 10*time.Second:
		return fmt.Errorf("%w: thinking for %v: want 0 to 10s", ErrConfig, c.Think)
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(Ways(), func(w Way) bool { return w.Name == name }) {
			return fmt.Errorf("%w: no way is called %q; there are %s", ErrConfig, name, strings.Join(names(), ", "))
		}
	}
	return nil
}

// Run plays the ways one after the other, each in a shop of its own, and judges them.
// An error means that a way could not be played; the report has those before it.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	if cfg.Limit == 0 {
		cfg.Limit = 2 * time.Minute
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	began := time.Now()
	report := Report{
		At: began.UTC().Truncate(time.Millisecond), Buyers: cfg.Buyers, Items: cfg.Items, Workers: cfg.Workers, ThinkMs: cfg.Think.Milliseconds(),
		Database: cfg.Database, Tree: "in memory", Ways: []Row{},
	}
	if cfg.ZooKeeper != "" {
		report.Tree = "ZooKeeper at " + cfg.ZooKeeper
	}
	var nonce [4]byte
	crand.Read(nonce[:])
	for _, way := range Ways() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, way.Name) {
			continue
		}
		row, err := play(ctx, cfg, way, "lab-"+hex.EncodeToString(nonce[:])+"-"+way.Name)
		report.TookMs = time.Since(began).Milliseconds()
		if err != nil {
			return report, fmt.Errorf("%s: %w", way.Name, err)
		}
		fmt.Fprintf(cfg.Progress, "%s: %d orders of %d, %d left, %d ms\n", row.Name, row.Orders, cfg.Items, row.Left, row.TookMs)
		report.Ways = append(report.Ways, row)
	}
	return report, nil
}

// errSlow: a way took longer than Config.Limit.
var errSlow = errors.New("it takes too long")

// play is one way, from an empty shop to an empty one.
func play(ctx context.Context, cfg Config, way Way, goods string) (row Row, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Limit, fmt.Errorf("%w: more than %v", errSlow, cfg.Limit))
	defer cancel()
	f, err := openFloor(ctx, cfg, way, goods)
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	if err != nil {
		return Row{}, err
	}
	buyers := cfg.Buyers
	if most := way.most(cfg); most > 0 {
		buyers = min(buyers, max(most, cfg.Items+1))
	}
	return f.sell(ctx, buyers)
}

// lockOf names the election of a way's run.
func lockOf(goods string) conclavesql.Lock { return conclavesql.Lock{DataCenter: "lab", Name: goods} }
