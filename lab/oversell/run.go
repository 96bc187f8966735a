package oversell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Config configures a run. DSN is required.
type Config struct {
	DSN      string // of a MySQL database, in which tables are created
	Database string // its name in the report

	Buyers int // more than items
	Items  int // at least one
	// Workers is the number of processes that the buyers are divided among, at
	// least two.
	Workers int
	// Think is the maximum time between a buyer's read and its write; each
	// buyer's is random. In the article it is one second, and with a lock the
	// sale lasts as long as all these times together.
	Think time.Duration
	Seed  uint64 // of the random times

	// ZooKeeper is the address of a real ZooKeeper for the locks that use one.
	// If it is empty they use a tree in memory.
	ZooKeeper string
	// Only names the ways to run. If it is empty, all are run.
	Only []string

	// AfterRead is called by each buyer after it has read the stock. It may
	// block: tests let all buyers read before one writes.
	AfterRead func(ctx context.Context, way string, buyer int)
	// Progress gets a line for each way.
	Progress io.Writer
}

// DefaultConfig returns the article's shop, with buyers that think faster.
func DefaultConfig() Config {
	return Config{Buyers: 1500, Items: 100, Workers: 6, Think: 20 * time.Millisecond, Seed: 1, Progress: io.Discard}
}

// ErrConfig is wrapped by the errors of Validate.
var ErrConfig = errors.New("oversell")

// Validate reports the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.DSN == "":
		return fmt.Errorf("%w: DSN is missing", ErrConfig)
	case c.Items < 1:
		return fmt.Errorf("%w: %d items (want at least 1)", ErrConfig, c.Items)
	case c.Buyers <= c.Items:
		return fmt.Errorf("%w: %d buyers of %d items (want more than items, so that items can be sold twice)", ErrConfig, c.Buyers, c.Items)
	case c.Workers < 2:
		return fmt.Errorf("%w: %d workers (want at least 2)", ErrConfig, c.Workers)
	case c.Think < 0 || c.Think > 10*time.Second:
		return fmt.Errorf("%w: thinking time %v (want 0 to 10s)", ErrConfig, c.Think)
	}
	for _, name := range c.Only {
		if known := names(); !slices.Contains(known, name) {
			return fmt.Errorf("%w: unknown way %q (want %s)", ErrConfig, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Run runs the ways one after the other, each in its own shop, and checks their
// outcomes. If a way fails, it returns the error and a report of the ways
// before it.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	began := time.Now()
	report := Report{
		At: began.UTC().Truncate(time.Millisecond), Buyers: cfg.Buyers, Items: cfg.Items, Workers: cfg.Workers, ThinkMs: cfg.Think.Milliseconds(),
		Database: cfg.Database, Tree: "in memory", Ways: []Row{},
	}
	if cfg.ZooKeeper != "" {
		report.Tree = "ZooKeeper at " + cfg.ZooKeeper
	}
	name := "lab-" + rand.Text() // no other run has it
	for _, way := range Ways() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, way.Name) {
			continue
		}
		row, err := runWay(ctx, cfg, way, name+"-"+way.Name)
		report.TookMs = time.Since(began).Milliseconds()
		if err != nil {
			return report, fmt.Errorf("%s: %w", way.Name, err)
		}
		fmt.Fprintf(cfg.Progress, "%s: %d orders of %d, %d left, %d ms\n", row.Name, row.Orders, cfg.Items, row.Left, row.TookMs)
		report.Ways = append(report.Ways, row)
	}
	return report, nil
}

// wayLimit is the maximum time of one way.
const wayLimit = 2 * time.Minute

// runWay runs one way in a new shop, and deletes the shop's rows afterwards.
func runWay(ctx context.Context, cfg Config, way Way, goods string) (row Row, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wayLimit, fmt.Errorf("the way takes too long: more than %v", wayLimit))
	defer cancel()
	s, err := openSale(ctx, cfg, way, goods)
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err != nil {
		return Row{}, err
	}
	buyers := cfg.Buyers
	if way.few > 0 {
		buyers = min(buyers, max(way.few, cfg.Items+1))
	}
	return s.sell(ctx, buyers)
}
