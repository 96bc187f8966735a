package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/testbed/demo"
	"conclave/testbed/scenario"
)

// demoCommand is run by `make demo` and `make compose-demo`: it starts a new
// cluster, kills its parts scene by scene, and checks invariants.
func (a *app) demoCommand() *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use: "demo", Args: want(), Short: "Kill the parts of a new cluster and check invariants",
		Long: `Start a new cluster, kill its leader, drain and kill a data node, kill a session, and
stop it: one scene each, with figures, in about half a minute. With --on compose the
nodes are containers with a real database, which gets faults as well ("make
compose-demo" builds the image first). Exit with 1 if an invariant did not hold.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			return a.playDemo(cmd.Context(), o)
		},
	}
	o.bind(cmd, "conclave-demo", "if the demo fails")
	return cmd
}

// playDemo plays the scenes, prints how often each invariant was checked, and
// fails if one was violated.
func (a *app) playDemo(ctx context.Context, o clusterOptions) error {
	began := time.Now()
	s, err := demo.Scenario(o.on == "compose")
	if err != nil {
		return err
	}
	s.Cluster.Seed, s.Cluster.Takeover = 1, o.takeover
	stage, err := a.newStage(stageConfig{clusterOptions: o, command: "demo", direct: true})
	if err != nil {
		return err
	}
	keep := false
	defer func() { stage.remove(keep) }()
	out := io.Discard
	if !a.asJSON {
		out = a.stdout
	}
	line := strings.Repeat("=", usualWidth-20)
	fmt.Fprintf(out, "%s\nConclave: a service registry cluster, broken on purpose\nSubscribers check every push.\n%s\n", line, line)
	n := demo.New(demo.Config{
		Cluster: stage.cluster, Scenario: s, Each: either(o.on == "compose", "a container of its own", "a separate process"),
		Tool: stage.tool, Database: stage.database, Out: out,
	})
	var r *scenario.Result
	r, keep, err = stage.play(ctx, s, n, a.stderr, n)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case r == nil || len(r.Verdicts) == 0:
		return fmt.Errorf("demo failed: %w", err)
	}
	if err != nil { // the scenes were played, and the cluster did not stop as it should
		r.Failures = append(r.Failures, err.Error())
	}
	r.Failures = append(r.Failures, unchecked(r)...)
	result := demoResult{Scenes: n.Scenes(), Broken: append([]string{}, r.Problems()...), Held: r.Ok(), TookMs: since(began)}
	checks := 0
	for _, v := range r.Verdicts {
		result.Invariants = append(result.Invariants, demoInvariant{v.ID + ": " + v.Says, v.Checks, len(v.Violations)})
		checks += v.Checks
	}
	if err := a.show(result, func(w io.Writer) {
		writeResult(w, r)
		if r.Ok() {
			fmt.Fprintf(w, "Every invariant held: %d checks in %.0f s.\n", checks, time.Since(began).Seconds())
		}
	}); err != nil || r.Ok() {
		return err
	}
	return fmt.Errorf("demo failed: %s", strings.Join(result.Broken[:min(3, len(result.Broken))], "; "))
}

// unchecked names the invariants that the demo shows and that were not checked
// once, as when the nodes' events could not be read: nothing is known of them.
func unchecked(r *scenario.Result) (out []string) {
	shown := []string{"I1", "I2"}
	if r.Scenario.Load.Clients > 0 {
		shown = append(shown, "I5", "I6", "I7", "I10", "I11", "L7")
	}
	for _, v := range r.Verdicts {
		if v.Checks == 0 && slices.Contains(shown, v.ID) {
			out = append(out, fmt.Sprintf("%s (%s) was not checked", v.ID, v.Says))
		}
	}
	return out
}

// demoResult is the demo as JSON.
type demoResult struct {
	Scenes     []demo.Scene    `json:"scenes"`
	Invariants []demoInvariant `json:"invariants"`
	Broken     []string        `json:"broken"`
	Held       bool            `json:"held"`
	TookMs     int64           `json:"tookMs"`
}

// demoInvariant is an invariant that was checked.
type demoInvariant struct {
	Name   string `json:"name"`
	Checks int    `json:"checks"`
	Broken int    `json:"broken"`
}
