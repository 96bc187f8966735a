package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/bench"
	"conclave/internal/sleep"
	"conclave/meta/metaclient"
)

// demoOptions say where the story is played, and which one.
type demoOptions struct {
	on      string // local, compose
	kills   int    // instead of the story: so many kills of the leader
	compose composeOptions
}

// demoCommand is what `make demo` and `make compose-demo` run: a story on a cluster
// of its own, in which everything that can be killed is, and a checker that has the
// last word.
func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Args: want(), Short: "Play the story of a cluster being killed, and judge it",
		Long: `Starts a cluster of its own, kills its leader, drains and kills a data node, kills a
session, and stops it: a scene each, with its figures, in about half a minute. With
--on compose the nodes are containers on a real database, which is broken, too
("make compose-demo" makes the image first). Exit 1 when an invariant did not hold.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.compose.validate(o.on); err != nil {
				return usageError{err}
			}
			return a.playDemo(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "local", "local: processes of this machine; compose: containers")
	f.IntVar(&o.kills, "kills", 0, "instead of the story: kill the leader so many times, and print the distribution")
	o.compose.bind(f, "conclave-demo", "when the demo fails")
	return cmd
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
	*app   // of its own: its http and token are the stage's
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

// scenery is what a kind of stage adds to the story.
type scenery struct {
	title, more string
	each        string // what each of the nine is
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
		return fmt.Errorf("the demo was interrupted%s", left)
	case err != nil:
		return fmt.Errorf("the demo failed: %w%s", err, left)
	case verdict != nil:
		return fmt.Errorf("the demo failed: %w%s", verdict, left)
	case left != "":
		return fmt.Errorf("the demo went well%s", left)
	}
	return nil
}

// play is the story, scene by scene.
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

// verdict prints every invariant with the number of checks; nil when all held.
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

// claims are what single scenes assert, judged with the invariants.
type claims struct {
	all    []bench.Invariant
	broken []string
}

// judge notes whether a claim held; what was seen is kept of one that did not.
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
