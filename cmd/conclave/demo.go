package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/testbed/bench"
)

// demoOptions are the flags of `demo`.
type demoOptions struct {
	on      string // local, compose
	kills   int    // number of kills of the leader instead of the scenes; 0: the scenes
	compose composeOptions
}

// demoCommand is run by `make demo` and `make compose-demo`: it starts a new
// cluster, kills its parts scene by scene, and checks invariants.
func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Args: want(), Short: "Kill the parts of a new cluster and check invariants",
		Long: `Start a new cluster, kill its leader, drain and kill a data node, kill a session, and
stop it: one scene each, with figures, in about half a minute. With --on compose the
nodes are containers with a real database, which gets faults as well ("make
compose-demo" builds the image first). Exit with 1 if an invariant did not hold.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.compose.validate(o.on); err != nil {
				return usageError{err}
			}
			return a.playDemo(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "local", "where to run: local (processes) or compose (containers)")
	f.IntVar(&o.kills, "kills", 0, "only kill the leader this many times and print the distribution")
	o.compose.bind(f, "conclave-demo", "if the demo fails")
	return cmd
}

// The clients of the demo: enough publishers to notice a missing one, and few
// enough to be no load.
const (
	demoPublishers  = 200
	demoPerDataID   = 10
	demoSubscribers = 2 // at each session
	demoTick        = 10 * time.Millisecond
	demoPause       = 2500 * time.Millisecond // between scenes, to read, and to check that nothing changes
)

// demo is one run of the demo.
type demo struct {
	*app   // a copy with the http client and token of the stage
	story  *story
	stage  stage
	admin  *metaclient.Admin
	terms  *termWatch
	ledger *bench.Ledger
	gaps   *bench.Gaps
	claims claims

	peers   []*bench.Peer
	traffic []*bench.Traffic
}

// scenery is what differs between the kinds of stages.
type scenery struct {
	title, more string
	each        string // what each of the nine nodes is
	open        func(ctx context.Context) (stage, error)
	scenes      func(d *demo) []func(context.Context) error
}

func (a *app) playDemo(ctx context.Context, o demoOptions) error {
	set := a.localScenery()
	if o.on == "compose" {
		set = a.composeScenery(o.compose)
	}
	own := *a
	d := &demo{app: &own, story: newStory(a.stdout, a.asJSON), ledger: bench.NewLedger()}
	d.story.title("Conclave", set.title, set.more)
	play := d.play
	if o.kills > 0 {
		play = func(ctx context.Context, set scenery) error { return d.playKills(ctx, set, o) }
	}
	err := play(ctx, set)
	verdict := d.verdict(o.kills == 0)
	interrupted := err != nil && ctx.Err() != nil && !errors.Is(verdict, errBroke)
	left := ""
	if d.stage != nil {
		left = d.stage.Close(err == nil && verdict == nil || interrupted)
	}
	if namesLogs(err) {
		left = ""
	}
	switch {
	case interrupted:
		return fmt.Errorf("demo interrupted%s", left)
	case err != nil:
		return fmt.Errorf("demo failed: %w%s", err, left)
	case verdict != nil:
		return fmt.Errorf("demo failed: %w%s", verdict, left)
	case left != "":
		return fmt.Errorf("demo succeeded%s", left)
	}
	return nil
}

// play runs the scenes in order.
func (d *demo) play(ctx context.Context, set scenery) error {
	defer d.leave()
	if err := d.start(ctx, set); err != nil {
		return err
	}
	if err := d.publish(ctx); err != nil {
		return err
	}
	work, rest := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer rest()
	background.Go(func() { d.terms.run(work) })
	failed := make([]error, len(d.traffic))
	for i, t := range d.traffic {
		background.Go(func() { failed[i] = t.Run(work, demoTick) })
	}
	for _, scene := range set.scenes(d) {
		if err := scene(ctx); err != nil {
			return err
		}
		if err := sleep.For(ctx, demoPause); err != nil {
			return err
		}
	}
	rest()
	background.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return d.stop(ctx)
}

// verdict prints every invariant with the number of checks. It returns nil if
// all held.
func (d *demo) verdict(clients bool) error {
	var all []bench.Invariant
	var broken []string
	if clients {
		all, broken = d.ledger.Invariants(), d.ledger.Broken()
	}
	if d.terms != nil {
		all, broken = append(all, d.terms.invariants()...), append(broken, d.terms.broken()...)
	}
	all, broken = append(all, d.claims.all...), append(broken, d.claims.broken...)
	return d.story.verdict(all, broken)
}

// claims are the invariants of single scenes.
type claims struct {
	all    []bench.Invariant
	broken []string
}

// judge records whether a claim held and, if not, what was observed.
func (c *claims) judge(name string, held bool, seen string, args ...any) {
	i := 0
	for i < len(c.all) && c.all[i].Name != name {
		i++
	}
	if i == len(c.all) {
		c.all = append(c.all, bench.Invariant{Name: name})
	}
	c.all[i].Checks++
	if !held {
		c.all[i].Broken++
		c.broken = append(c.broken, name+": "+fmt.Sprintf(seen, args...))
	}
}
