package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/internal/faultnet"
	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/lab/article004/zklatch/memtree"
	conclavesql "conclave/sql"
)

// Config configures a run of the lab. DSN and Spawn are required.
type Config struct {
	DSN       string // user:password@tcp(host:port)/database
	Database  string // its name in the report
	ZooKeeper string // host:port of a real one; if empty, one in memory that speaks ZooKeeper's protocol

	Rules  []Rule
	Lease  time.Duration // of all rules whose lease can be set
	Own    bool          // each rule runs with its own defaults instead
	Repeat int           // the maximum number of faults of each kind
	Limit  time.Duration // the time after which no fault begins
	Calm   time.Duration // how long each election is measured before its first fault
	Act    time.Duration // between two writes of a leader
	AtOnce int           // rules that run at the same time, not counting those whose lease is fixed

	// Spawn returns a command, not yet started, that runs Candidate on its
	// standard input and output.
	Spawn    func() *exec.Cmd
	Version  string
	Progress io.Writer // gets a line for each rule

	successorTimeout time.Duration // 0 for the default; see group.successorTimeout
}

// DefaultConfig returns a run of all rules, without DSN and Spawn.
func DefaultConfig() Config {
	return Config{
		Rules: Rules(), Lease: time.Second, Repeat: 10, Limit: 160 * time.Second, Calm: 3 * time.Second, Act: 20 * time.Millisecond, AtOnce: 7,
		Progress: io.Discard,
	}
}

// Validate reports the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Spawn == nil:
		return errors.New("lab: Spawn is missing")
	case c.Lease < 300*time.Millisecond || c.Lease > time.Minute:
		return fmt.Errorf("lab: Lease %v is not between 300ms and 1m", c.Lease)
	case c.Act < time.Millisecond:
		return fmt.Errorf("lab: Act %v is under 1ms", c.Act)
	case c.Limit < 0:
		return fmt.Errorf("lab: Limit %v is negative", c.Limit)
	case c.Repeat < 1 || c.AtOnce < 1:
		return fmt.Errorf("lab: Repeat %d and AtOnce %d must be at least 1", c.Repeat, c.AtOnce)
	}
	names := map[string]bool{}
	for _, r := range c.Rules {
		if names[r.Name] { // they would be one election
			return fmt.Errorf("lab: Rules has %s twice", r.Name)
		}
		names[r.Name] = true
	}
	_, err := c.hosts()
	return err
}

// hosts returns the addresses of the database's hosts, for the proxies before them.
func (c Config) hosts() ([]string, error) {
	network, hosts, err := conclavesql.Hosts(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if !strings.HasPrefix(network, "tcp") {
		return nil, fmt.Errorf("lab: DSN has the network %q (want TCP, so that the lab can cut connections)", network)
	}
	return hosts, nil
}

// Elections runs every rule under every fault. If ctx ends, it returns an error
// and a report of what was measured until then; with any other error the report
// is empty. Rules that could not run and promises that were not kept are not
// errors: they are in the report.
func Elections(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	l, err := newLaboratory(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	defer l.close()
	return l.run(ctx)
}

// laboratory is one run: what all rules share.
type laboratory struct {
	cfg    Config
	db     *conclavesql.DB // not through net: faults do not affect it
	net    *faultnet.Net
	sql    map[string]string // the addresses of the proxies in net, by the database's host
	tree   string            // that of ZooKeeper's proxy
	stores []string          // the names of all stores in net
	runID  string            // names this run in the tables

	stopTree func() // stops the tree in memory; nil if there is none

	printing sync.Mutex // guards Progress
}

func newLaboratory(ctx context.Context, cfg Config) (l *laboratory, err error) {
	l = &laboratory{cfg: cfg, net: faultnet.New(), runID: fmt.Sprintf("%06x", rand.N(1<<24))}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.db, err = conclavesql.Open(cfg.DSN, conclavesql.Options{Deadline: 10 * time.Second, MaxConns: 8}); err != nil {
		return nil, err
	}
	if err := l.db.Create(ctx, statement("write_table")); err != nil {
		return nil, fmt.Errorf("create the lab's table: %w", err)
	}
	if err := l.listen(); err != nil {
		return nil, err
	}
	tree := cfg.ZooKeeper
	if tree == "" {
		if _, tree, l.stopTree, err = memtree.Start(); err != nil {
			return nil, err
		}
	}
	l.tree, err = l.net.Listen(hostTree, tree, false)
	return l, err
}

// listen starts a proxy before each host of the database.
func (l *laboratory) listen() error {
	hosts, err := l.cfg.hosts()
	if err != nil {
		return err
	}
	l.sql, l.stores = map[string]string{}, []string{hostTree}
	for _, host := range hosts {
		name := hostSQL + " " + host
		if l.sql[host], err = l.net.Listen(name, host, false); err != nil {
			return err
		}
		l.stores = append(l.stores, name)
	}
	return nil
}

func (l *laboratory) close() {
	l.net.Close()
	if l.stopTree != nil {
		l.stopTree()
	}
	if l.db != nil {
		l.db.Close()
	}
}

// progress writes a line of progress.
func (l *laboratory) progress(format string, args ...any) {
	l.printing.Lock()
	defer l.printing.Unlock()
	fmt.Fprintf(l.cfg.Progress, format+"\n", args...)
}

// run runs the rules: those with fixed times throughout, because their leases
// are long; the others in waves of equal duration; those that spin at the end,
// one at a time.
func (l *laboratory) run(ctx context.Context) (Report, error) {
	began := time.Now()
	var slow, spinning, others []int
	for i, r := range l.cfg.Rules {
		switch {
		case r.Alone:
			spinning = append(spinning, i)
		case r.Fixed:
			slow = append(slow, i)
		default:
			others = append(others, i)
		}
	}
	last := began.Add(l.cfg.Limit)
	beside := last // the rules that spin get a sixth of the time
	if len(spinning) > 0 {
		beside = last.Add(-l.cfg.Limit / 6)
	}
	rows := make([]Row, len(l.cfg.Rules))
	together := func(rules []int, until time.Time) {
		var group sync.WaitGroup
		for _, i := range rules {
			group.Go(func() {
				var err error
				rows[i], err = l.runRule(ctx, l.cfg.Rules[i], until)
				switch {
				case err != nil && ctx.Err() != nil:
					rows[i].Failed = interrupted
				case err != nil:
					rows[i].Failed = err.Error()
				}
			})
		}
		group.Wait()
	}
	var throughout sync.WaitGroup
	throughout.Go(func() { together(slow, beside) })
	waves := slices.Collect(slices.Chunk(others, l.cfg.AtOnce))
	for w, wave := range waves {
		together(wave, time.Now().Add(time.Until(beside)/time.Duration(len(waves)-w)))
	}
	throughout.Wait()
	for alone := range slices.Chunk(spinning, 1) {
		together(alone, last)
	}
	incomplete := slices.ContainsFunc(rows, func(r Row) bool { return r.Failed == interrupted })
	report := Report{
		At: began.UTC().Truncate(time.Millisecond), Version: l.cfg.Version, Database: l.cfg.Database, ZooKeeper: cmp.Or(l.cfg.ZooKeeper, "in memory, over ZooKeeper's protocol"),
		Candidates: candidates, ActMs: ms(l.cfg.Act), LeaseMs: ms(l.cfg.Lease), Own: l.cfg.Own, Repeat: l.cfg.Repeat, AtOnce: l.cfg.AtOnce,
		TookMs: ms(time.Since(began)), Interrupted: incomplete, Rows: rows,
	}
	if incomplete {
		return report, ctx.Err()
	}
	return report, nil
}

// runRule measures one rule: first without faults, and then with each fault in
// turn until there are enough, or until the time has passed.
func (l *laboratory) runRule(ctx context.Context, rule Rule, until time.Time) (row Row, err error) {
	times := rule.times(l.cfg.Lease)
	if l.cfg.Own {
		times = rule.Own
	}
	g := &group{laboratory: l, rule: rule, times: times, lab: "lab-" + l.runID + "-" + rule.Name, changed: signal.New()}
	row = newRow(rule, times)
	if err := ctx.Err(); err != nil {
		return row, err
	}
	defer g.tearDown()
	if err := g.setUp(ctx); err != nil {
		return row, err
	}
	began := time.Now()
	if err := g.measureCalm(ctx, &row); err != nil {
		return row, err
	}
	var trials []trial
	defer func() { row.sum(trials) }() // also those before an error
	longest := time.Duration(0)
	repeat := l.cfg.Repeat * len(Faults())
	if rule.Faultless {
		repeat = 0
	}
	for n := range repeat {
		if n >= len(Faults()) && !time.Now().Add(longest).Before(until) {
			break
		}
		start := time.Now()
		t, err := g.runTrial(ctx, Faults()[n%len(Faults())])
		longest = max(longest, time.Since(start))
		if errors.Is(err, errNoLeader) && !row.promises() && row.Restarts < candidates {
			row.Restarts++ // expected of a rule that promises nothing
			if err := g.restartAll(); err != nil {
				return row, err
			}
			continue
		}
		if err != nil {
			return row, err
		}
		trials = append(trials, t)
	}
	g.mu.Lock()
	row.Unasked = g.unasked
	g.mu.Unlock()
	leaderships, _ := g.history()
	row.Deposed, row.WonTwice = Depositions(leaderships, g.faults, times.Beat)
	row.TookMs = ms(time.Since(began))
	l.progress("%-17s %2d faults in %v", rule.Name, len(trials), time.Since(began).Round(100*time.Millisecond))
	return row, nil
}

// measureCalm waits for the first leader and measures what the election costs
// while there is no fault.
func (g *group) measureCalm(ctx context.Context, row *Row) error {
	period := max(g.cfg.Calm, g.times.Lease)
	if g.rule.Faultless {
		period = 4 * g.times.Lease
	}
	if _, err := g.waitForLeader(ctx); err != nil && !(g.rule.Faultless && errors.Is(err, errNoLeader)) {
		return err
	}
	g.setCalm(true)
	before, known := g.costWithout(ctx, -1, queryWhileCalm)
	began := time.Now()
	if err := sleep.For(ctx, period); err != nil {
		return err
	}
	if after, ok := g.costWithout(ctx, -1, queryWhileCalm); ok && known {
		took := time.Since(began).Seconds()
		statements := round(float64(after.Statements-before.Statements) / took)
		turns := round(float64(after.Turns-before.Turns) / took)
		row.StatementsPerSecond, row.TurnsPerSecond = &statements, &turns
	}
	return nil
}
