package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave/bench"
	"conclave/meta/metaclient"
)

// demoCommand is what `make demo` runs: a story of half a minute on a cluster of
// its own, in which everything that can be killed is, and a checker that has the
// last word.
func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Hidden: true, Args: want(), Short: "Play half a minute of a cluster being killed",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.playDemo(cmd.Context()) },
	}
}

// The cast: enough publishers that a missing one would be seen, few enough that
// the story is about the cluster.
const (
	demoPublishers  = 200
	demoPerDataID   = 10
	demoSubscribers = 2 // at each session
	demoTick        = 10 * time.Millisecond
	demoPause       = 2500 * time.Millisecond // between scenes: to read, and to see that nothing happens
)

// demo is one performance.
type demo struct {
	*app
	story   *story
	cluster *ownCluster
	admin   *metaclient.Admin
	terms   *termWatch
	ledger  *bench.Ledger
	gaps    *bench.Gaps
	data    []string // addresses

	publishers map[string]*bench.Peer // by the session they began at
	peers      []*bench.Peer
	traffic    []*bench.Traffic
}

func (a *app) playDemo(ctx context.Context) (err error) {
	root, err := os.MkdirTemp("", "conclave-demo-")
	if err != nil {
		return err
	}
	d := &demo{
		app: a, story: newStory(a.stdout, a.asJSON), ledger: bench.NewLedger(), gaps: bench.NewGaps(a.http),
		publishers: make(map[string]*bench.Peer),
	}
	d.story.title("Conclave", "a service registry cluster, killed on purpose",
		"Nine processes on this machine. A checker holds subscribers and judges every push.")
	err = d.play(ctx, filepath.Join(root, "cluster"))
	held := d.verdict()
	if err == nil && held {
		_ = os.RemoveAll(root) // nothing in it is worth keeping
		return nil
	}
	if err == nil {
		err = errors.New("an invariant broke")
	}
	return fmt.Errorf("the demo failed: %w; logs are in %s", err, filepath.Join(root, "cluster", "logs"))
}

// play is the story, scene by scene.
func (d *demo) play(ctx context.Context, dir string) error {
	defer func() {
		for _, p := range d.peers {
			p.Leave()
		}
		if d.cluster != nil {
			_ = d.cluster.end(true) // stopped in the last scene already, unless something failed
		}
	}()
	if err := d.start(ctx, dir); err != nil {
		return err
	}
	if err := d.publish(ctx); err != nil {
		return err
	}
	work, rest := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer rest()
	d.terms = newTermWatch(d.admin.Metas, d.http)
	background.Go(func() { d.terms.run(work) })
	var failed error
	for _, t := range d.traffic {
		background.Go(func() {
			if err := t.Run(work, demoTick); err != nil {
				failed = err
			}
		})
	}
	for _, scene := range []func(context.Context) error{d.killLeader, d.drainData, d.killData, d.killSession} {
		if err := scene(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, demoPause); err != nil {
			return err
		}
	}
	rest()
	background.Wait()
	if failed != nil {
		return failed
	}
	return d.stop(ctx)
}

func (d *demo) start(ctx context.Context, dir string) error {
	d.story.scene("START", "3 metas, 3 data nodes, 2 sessions and a MySQL server, each a process of its own")
	began := time.Now()
	var err error
	if d.cluster, err = startOwn(ctx, dir, nil); err != nil {
		return err
	}
	ready := since(began)
	metas, err := d.cluster.Addresses("meta")
	if err != nil {
		return err
	}
	if d.data, err = d.cluster.Addresses("data"); err != nil {
		return err
	}
	d.admin = d.adminAt(metas)
	leader, err := d.admin.Leader(ctx)
	if err != nil {
		return err
	}
	slots, err := d.admin.Slots(ctx)
	if err != nil {
		return err
	}
	d.story.figure("all processes ready after", ms(ready), "")
	d.story.figure("the metas elected", leader.Leader, fmt.Sprintf("term %d", leader.Term))
	d.story.figure("slots", fmt.Sprint(len(slots.Slots)), spread(slots))
	d.story.look("the whole time, in another terminal: conclave --dir " + d.cluster.Dir() + " events -f")
	return nil
}

// spread says how many slots each data node leads.
func spread(s metaclient.SlotsInfo) string {
	count := make(map[string]int)
	for _, x := range s.Slots {
		count[x.Leader]++
	}
	var parts []string
	for _, name := range sortedKeys(count) {
		parts = append(parts, fmt.Sprintf("%s leads %d", name, count[name]))
	}
	return strings.Join(parts, ", ")
}

func (d *demo) publish(ctx context.Context) error {
	d.story.scene("PUBLISH", fmt.Sprintf("%d publishers and %d subscribers, half of them at each session", demoPublishers, 2*demoSubscribers))
	sessions, err := d.cluster.Addresses("session")
	if err != nil {
		return err
	}
	dataIDs := bench.DataIDs("shop", demoPublishers/demoPerDataID/2)
	dataIDs = append(dataIDs, bench.DataIDs("bank", demoPublishers/demoPerDataID/2)...)
	for i := range 2 * demoSubscribers {
		p, err := bench.Connect(fmt.Sprint("subscriber-", i+1), sessions[i%len(sessions)])
		if err != nil {
			return err
		}
		d.peers = append(d.peers, p)
		if err := p.Watch(d.ledger, fmt.Sprint("subscriber-", i+1), dataIDs...); err != nil {
			return err
		}
	}
	began := time.Now()
	for i, prefix := range []string{"shop", "bank"} {
		p, err := bench.Connect(prefix, sessions[i%len(sessions)])
		if err != nil {
			return err
		}
		d.peers = append(d.peers, p)
		d.publishers[sessions[i%len(sessions)]] = p
		t, err := bench.PublishAll(ctx, p.Client, d.ledger, prefix, demoPublishers/2, demoPerDataID)
		if err != nil {
			return err
		}
		d.traffic = append(d.traffic, t)
	}
	if err := d.ledger.AwaitSeen(ctx); err != nil {
		return err
	}
	d.story.figure("everybody saw all of them after", ms(since(began)), "")
	d.ledger.Phase()
	return d.calm(ctx)
}

// calm watches the traffic while nothing is broken, for the figures to compare with.
func (d *demo) calm(ctx context.Context) error {
	quiet, stop := context.WithTimeout(ctx, 2*demoPause)
	defer stop()
	var traffic sync.WaitGroup
	errs := make([]error, len(d.traffic))
	for i, t := range d.traffic {
		traffic.Go(func() { errs[i] = t.Run(quiet, demoTick) })
	}
	traffic.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := d.ledger.AwaitSeen(ctx); err != nil {
		return err
	}
	v := d.ledger.Phase().Values()
	d.story.figure("an update reaches a subscriber in", fmt.Sprintf("%.1f ms", v.P50), fmt.Sprintf("p99 %.1f ms, %d measured", v.P99, v.N))
	d.story.look("from here on every publisher updates its value, " + fmt.Sprint(2*int(time.Second/demoTick)) + " times a second in all")
	return nil
}

func (d *demo) killLeader(ctx context.Context) error {
	leader, err := d.admin.Leader(ctx)
	if err != nil {
		return err
	}
	d.story.scene("KILL -9 THE LEADER", fmt.Sprintf("%s, which leads term %d", leader.Leader, leader.Term))
	d.ledger.Phase()
	began := time.Now()
	if err := d.cluster.Kill(ctx, leader.Leader, syscall.SIGKILL); err != nil {
		return err
	}
	next, err := d.awaitTerm(ctx, leader.Term)
	if err != nil {
		return err
	}
	seen := since(began)
	elections, err := d.admin.Elections(ctx)
	if err != nil {
		return err
	}
	d.story.figure("the next leader is", next.Leader, fmt.Sprintf("term %d, cause %q", next.Term, next.Cause))
	for _, e := range elections {
		if e.Term == next.Term {
			d.story.figure("leaderless for", ms(e.LeaderlessMs), fmt.Sprintf("seen from outside after %s; the Java original: 21 s", ms(seen)))
		}
	}
	return d.after(ctx, leader.Leader, "conclave elections")
}

// awaitTerm waits for a leader of a higher term.
func (d *demo) awaitTerm(ctx context.Context, term uint64) (metaclient.LeaderInfo, error) {
	var leader metaclient.LeaderInfo
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		var err error
		leader, err = d.askLeader(ctx, d.admin.Metas, term)
		return err == nil, err
	})
	return leader, err
}

func (d *demo) drainData(ctx context.Context) error {
	const name = "data-1"
	d.story.scene("DRAIN A DATA NODE", name+" hands its slots over while it is being written to and read from")
	d.ledger.Phase()
	d.gaps.Since(ctx, d.data)
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	done, err := drain(waiting, d.admin, name)
	if err != nil {
		return err
	}
	gaps := bench.NewDist()
	for _, g := range d.gaps.Since(ctx, d.data) {
		gaps.AddMs(g)
	}
	d.story.figure("slots moved", fmt.Sprint(done.MovedSlots), "in "+ms(done.TookMs))
	if v := gaps.Values(); v.N > 0 {
		d.story.figure("a slot was unreadable for", fmt.Sprintf("%.1f ms", v.P50), fmt.Sprintf("the longest %.1f ms; callers were made to wait, none was refused", v.Max))
	}
	if err := d.judge(ctx); err != nil {
		return err
	}
	d.story.look("conclave slots, conclave blacklist list")
	if err := d.admin.Allow(ctx, name); err != nil {
		return err
	}
	return d.settle(ctx)
}

func (d *demo) killData(ctx context.Context) error {
	const name = "data-2"
	before, err := d.admin.Slots(ctx)
	if err != nil {
		return err
	}
	d.story.scene("KILL -9 A DATA NODE", fmt.Sprintf("%s, which leads %s", name, plural(ledBy(before, name), "slot")))
	d.ledger.Phase()
	began := time.Now()
	if err := d.cluster.Kill(ctx, name, syscall.SIGKILL); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = poll(waiting, func() (bool, error) {
		s, err := d.admin.Slots(waiting)
		return err == nil && holdsNothing(s, name) && allServed(s), err
	})
	if err != nil {
		return fmt.Errorf("the slots of %s are not served again: %w", name, err)
	}
	d.story.figure("unreadable for, at most", ms(since(began)), "until the last of its slots was served by another; the Java original: 22-24 s")
	return d.after(ctx, name, "conclave slots")
}

// allServed says that no slot waits for its leader to begin.
func allServed(s metaclient.SlotsInfo) bool {
	for _, x := range s.Slots {
		if x.State == "crash" || x.State == "switching" {
			return false
		}
	}
	return true
}

func (d *demo) killSession(ctx context.Context) error {
	const name = "session-1"
	p, err := d.cluster.Process(ctx, name)
	if err != nil {
		return err
	}
	d.story.scene("KILL -9 A SESSION", fmt.Sprintf("%s, behind which %d publishers and %d subscribers live", name, demoPublishers/2, demoSubscribers))
	d.ledger.Phase()
	began := time.Now()
	if err := d.cluster.Kill(ctx, name, syscall.SIGKILL); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	peer := d.publishers[p.HTTP]
	err = poll(waiting, func() (bool, error) {
		for _, n := range peer.Connected() {
			if n.Name != name {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("the publishers behind %s found no other session: %w", name, err)
	}
	d.story.figure("its clients found the other one in", ms(since(began)), "")
	return d.after(ctx, name, "conclave nodes --role session")
}

// after ends a scene of killing: what the subscribers saw, and the process back.
func (d *demo) after(ctx context.Context, name, look string) error {
	if err := sleep(ctx, time.Second); err != nil { // let them see it
		return err
	}
	if err := d.judge(ctx); err != nil {
		return err
	}
	d.story.look(look)
	if err := d.cluster.Start(ctx, name); err != nil {
		return err
	}
	return d.settle(ctx)
}

// judge prints what the subscribers saw in this scene.
func (d *demo) judge(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	mark := d.ledger.Mark()
	if err := d.ledger.AwaitMark(waiting, mark); err != nil {
		return err
	}
	v := d.ledger.Phase().Values()
	d.story.figure("the slowest update took", fmt.Sprintf("%.0f ms", v.Max), fmt.Sprintf("of %d; p50 %.1f ms", v.N, v.P50))
	missing := d.ledger.Invariants()[0]
	d.story.figure("publishers missing at subscribers", fmt.Sprint(missing.Broken), fmt.Sprintf("%d looked for so far", missing.Checks))
	return nil
}

// settle waits until every process is ready and no slot is on its way.
func (d *demo) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := d.cluster.AwaitReady(ctx); err != nil {
		return err
	}
	err := poll(ctx, func() (bool, error) {
		s, err := d.admin.Slots(ctx)
		return err == nil && s.Stable && s.Even, err
	})
	if err != nil {
		return fmt.Errorf("the slots do not come to rest: %w", err)
	}
	return nil
}

func (d *demo) stop(ctx context.Context) error {
	d.story.scene("STOP", "the clients say good-bye, then the cluster stops: sessions, data nodes, metas, database")
	if err := d.terms.history(ctx, d.admin); err != nil {
		return err
	}
	for _, p := range d.peers {
		p.Leave()
	}
	d.peers = nil
	began := time.Now()
	if err := d.cluster.end(false); err != nil {
		return err
	}
	d.story.figure("all nine processes ended in", ms(since(began)), "each with exit code 0")
	rows, err := d.cluster.Rows()
	for _, r := range rows {
		if r.State != "exited" || r.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%s is %s with code %d %s", r.Name, r.State, r.Code, r.Signal))
		}
	}
	d.cluster = nil
	return err
}

// verdict prints every invariant with the number of checks, and says whether all held.
func (d *demo) verdict() bool {
	all := d.ledger.Invariants()
	if d.terms != nil {
		all = append(all, d.terms.invariants()...)
	}
	broken := d.ledger.Broken()
	if d.terms != nil {
		broken = append(broken, d.terms.broken()...)
	}
	return d.story.verdict(all, broken)
}
