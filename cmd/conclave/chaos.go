package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/chaos"
)

func (a *app) chaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chaos", Short: "Inject faults by a scenario and check invariants",
		ValidArgs: []string{"list", "run"}, Args: cobra.ArbitraryArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(a.chaosListCommand(), a.chaosRunCommand())
	return cmd
}

// scenarioRow is one row of the list.
type scenarioRow struct {
	Name  string   `json:"name"`
	On    []string `json:"on"` // where it can run: simulator, local, compose
	About string   `json:"about"`
}

func (a *app) chaosListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the built-in scenarios", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			var rows []scenarioRow
			for _, name := range chaos.Scenarios() {
				s, err := chaos.Builtin(name)
				if err != nil {
					return err
				}
				rows = append(rows, scenarioRow{Name: name, On: playableOn(s), About: firstSentence(s.About)})
			}
			return a.show(rows, func(w io.Writer) {
				t := newTable("NAME", "ON", "ABOUT")
				for _, r := range rows {
					t.add(r.Name, strings.Join(r.On, ","), r.About)
				}
				t.write(w)
			})
		},
	}
}

// firstSentence returns the first sentence of a comment in one line.
func firstSentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if strings.ContainsRune(".!?", rune(s[i])) && (i+1 == len(s) || s[i+1] == ' ' && !abbreviated(s[:i])) {
			return s[:i+1]
		}
	}
	return s
}

// abbreviated reports whether a full stop after s belongs to an abbreviation.
func abbreviated(s string) bool {
	word := s[strings.LastIndexByte(s, ' ')+1:]
	return slices.Contains([]string{"e.g", "i.e", "no", "vs", "etc"}, word)
}

// playableOn returns where a scenario can run, as far as its actions show.
func playableOn(s chaos.Scenario) []string {
	on := []string{"simulator"}
	for _, name := range []string{"local", "compose"} {
		if len(ground(name).Refuses(s)) == 0 {
			on = append(on, name)
		}
	}
	return on
}

// chaosOptions are the flags of `chaos run`.
type chaosOptions struct {
	on      string
	seed    uint64
	times   int
	html    string
	compose composeOptions
}

func (a *app) chaosRunCommand() *cobra.Command {
	o := chaosOptions{}
	cmd := &cobra.Command{
		Use: "run NAME|FILE", Short: "Run a scenario and check the invariants", Args: want("NAME|FILE"),
		Long: `Run a scenario of ` + "`conclave chaos list`" + `, of a file, or "storm", which is random faults from
--seed. Print its history, its figures and the result of each invariant.

The scenario runs on a new cluster of processes or containers. With --dir it runs on the
cluster in that folder, without faults that need proxies between its processes. With
--json print one report per run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			attach := o.on == "local" && cmd.Flags().Changed("dir")
			return a.runChaos(cmd.Context(), args[0], attach, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "local", "where to run: local (processes) or compose (containers)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of every random choice")
	f.IntVar(&o.times, "times", 1, "number of runs, each with the next seed")
	f.StringVar(&o.html, "html", "", "write the report to this file as one HTML page")
	o.compose.bind(f, "conclave-chaos", "if an invariant did not hold")
	return cmd
}

func (o *chaosOptions) validate() error {
	if o.times < 1 {
		return fmt.Errorf("--times %d: want at least 1", o.times)
	}
	return o.compose.validate(o.on)
}

// scenario returns the scenario of a name: a built-in one, a file, or a storm.
func (o *chaosOptions) scenario(name string, on *chaos.Ground) (chaos.Scenario, error) {
	if name == "storm" {
		return chaos.Storm(o.seed, on), nil
	}
	s, err := chaos.Builtin(name)
	if err == nil {
		return s, nil
	}
	info, fileErr := os.Stat(name)
	switch {
	case errors.Is(fileErr, os.ErrNotExist):
		return s, usageError{fmt.Errorf("%w, and no such file; list the scenarios with `conclave chaos list`", err)}
	case fileErr == nil && info.IsDir():
		return s, usageError{fmt.Errorf("%s is a directory: want a file or a scenario of `conclave chaos list`", name)}
	}
	text, fileErr := os.ReadFile(name)
	if fileErr != nil {
		return s, fileErr
	}
	if s, err = chaos.Parse(name, string(text)); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

func (a *app) runChaos(ctx context.Context, name string, attach bool, o chaosOptions) error {
	var reports []chaos.Report
	failed := 0
	var stopped error
	for range o.times {
		r, err := a.playChaos(ctx, name, attach, o)
		if err != nil {
			stopped = err
			break
		}
		o.seed++
		if !r.Ok() {
			failed++
		}
		reports = append(reports, r.Report())
		if err := a.show(reports[len(reports)-1], func(w io.Writer) { writeResult(w, r) }); err != nil {
			return err
		}
	}
	if o.html != "" && len(reports) > 0 {
		stopped = errors.Join(stopped, writePage(o.html, func(w io.Writer) error { return chaos.WriteHTML(w, reports...) }))
	}
	if stopped != nil {
		return stopped
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, plural(o.times, "run"))
	}
	return nil
}

// writeResult prints the invariants that were checked, and names the others.
func writeResult(w io.Writer, r *chaos.Result) {
	t := newTable("INVARIANT", "", "CHECKS", "BROKEN")
	idle := []string{}
	for _, v := range r.Report().Verdicts {
		if v.Checks == 0 && len(v.Violations) == 0 {
			idle = append(idle, v.ID)
			continue
		}
		t.add(v.ID, v.Says, v.Checks, len(v.Violations))
	}
	fmt.Fprintln(w)
	t.write(w)
	if len(idle) > 0 {
		fmt.Fprintf(w, "not checked, for lack of an occasion or of trace events: %s\n", strings.Join(idle, ", "))
	}
	fmt.Fprintln(w)
	for _, f := range r.Figures {
		fmt.Fprintln(w, f)
	}
	problems := r.Problems()
	for _, p := range problems {
		fmt.Fprintln(w, "BROKEN:", p)
	}
	if len(problems) == 0 {
		fmt.Fprintf(w, "%s, seed %d: all invariants held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	}
}
