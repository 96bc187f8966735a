package main

import (
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
	beside  int
	html    string
	compose composeOptions
}

func (a *app) chaosRunCommand() *cobra.Command {
	o := chaosOptions{}
	cmd := &cobra.Command{
		Use: "run NAME|FILE...", Short: "Run scenarios and check the invariants", Args: want1("NAME|FILE"),
		Long: `Run a scenario of ` + "`conclave chaos list`" + `, of a file, or "storm", which is random faults from
--seed. Print its history, its figures and the result of each invariant.

The scenario runs on a new cluster of processes or containers. With --dir it runs on the
cluster in that folder, without faults that need proxies between its processes.

With several scenarios each of them runs --times times, in turns, and a table counts the
runs and the violations. With --parallel several runs, each with a cluster of its own,
are made at the same time. With --json print one report per run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			attach := o.on == "local" && cmd.Flags().Changed("dir")
			if o.beside > 1 && (attach || o.on != "local") {
				return usageError{fmt.Errorf("--parallel %d: want 1 with --dir or --on %s: there is one cluster", o.beside, o.on)}
			}
			return a.runChaos(cmd.Context(), args, attach, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "local", "where to run: local (processes) or compose (containers)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of every random choice")
	f.IntVar(&o.times, "times", 1, "number of runs of each scenario, each with the next seed")
	f.IntVar(&o.beside, "parallel", 1, "number of runs at the same time, with one line of output for each")
	f.StringVar(&o.html, "html", "", "write the report to this file as one HTML page")
	o.compose.bind(f, "conclave-chaos", "if an invariant did not hold")
	return cmd
}

func (o *chaosOptions) validate() error {
	if o.times < 1 {
		return fmt.Errorf("--times %d: want at least 1", o.times)
	}
	if o.beside < 1 || o.beside > 16 {
		return fmt.Errorf("--parallel %d: want 1 to 16", o.beside)
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
	for _, p := range r.Problems() {
		fmt.Fprintln(w, "BROKEN:", p)
	}
	if r.Ok() {
		fmt.Fprintf(w, "%s, seed %d: all invariants held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	}
}

// writeOutcome prints in one line that all invariants held, or each one that did not.
func writeOutcome(w io.Writer, r *chaos.Result) {
	for _, p := range r.Problems() {
		fmt.Fprintf(w, "%s, seed %d: BROKEN: %s\n", r.Scenario.Name, r.Scenario.Cluster.Seed, p)
	}
	if r.Ok() {
		fmt.Fprintf(w, "%s, seed %d: all invariants held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	}
}
