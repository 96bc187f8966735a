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
		Use: "chaos", Short: "Break a cluster by a scenario, and judge what came of it",
		ValidArgs: []string{"list", "run"}, Args: cobra.ArbitraryArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(a.chaosListCommand(), a.chaosRunCommand())
	return cmd
}

// scenarioRow is one line of the list.
type scenarioRow struct {
	Name  string   `json:"name"`
	On    []string `json:"on"` // where it can be played: simulator, local, compose
	About string   `json:"about"`
}

func (a *app) chaosListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the scenarios that are built in", Args: want(),
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

// firstSentence of a comment, without the lines in which it was written.
func firstSentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if strings.ContainsRune(".!?", rune(s[i])) && (i+1 == len(s) || s[i+1] == ' ' && !abbreviated(s[:i])) {
			return s[:i+1]
		}
	}
	return s
}

// abbreviated says that a full stop there would end no sentence: "article no.".
func abbreviated(s string) bool {
	word := s[strings.LastIndexByte(s, ' ')+1:]
	return slices.Contains([]string{"e.g", "i.e", "no", "vs", "etc"}, word)
}

// playableOn lists where a scenario can be played, as far as its acts tell.
func playableOn(s chaos.Scenario) []string {
	on := []string{"simulator"}
	for _, name := range []string{"local", "compose"} {
		if len(ground(name).Refuses(s)) == 0 {
			on = append(on, name)
		}
	}
	return on
}

// chaosOptions say what is played, where, and what is kept of it.
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
		Use: "run NAME|FILE", Short: "Play a scenario, and print its history, its figures and each invariant", Args: want("NAME|FILE"),
		Long: `Plays a scenario of ` + "`conclave chaos list`" + `, of a file, or "storm": random faults from --seed.

It is played on a cluster of its own, in processes or containers; with --dir, when a
cluster runs there, on that one, as far as it can be broken without a network of
proxies between its processes. With --json it prints one report per run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			attach := o.on == "local" && cmd.Flags().Changed("dir")
			return a.runChaos(cmd.Context(), args[0], attach, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "local", "local: processes of this machine; compose: containers")
	f.Uint64Var(&o.seed, "seed", 1, "of every random choice")
	f.IntVar(&o.times, "times", 1, "play it so many times, each with the next seed")
	f.StringVar(&o.html, "html", "", "write the report to this file, as a page that needs nothing but itself")
	o.compose.bind(f, "conclave-chaos", "when something did not hold")
	return cmd
}

func (o *chaosOptions) validate() error {
	if o.times < 1 {
		return fmt.Errorf("--times %d: want at least 1", o.times)
	}
	return o.compose.validate(o.on)
}

// scenario finds what is to be played: a built-in one, a file, or a storm.
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
		return s, usageError{fmt.Errorf("%w; there is no file of that name either; `conclave chaos list` shows all scenarios", err)}
	case fileErr == nil && info.IsDir():
		return s, usageError{fmt.Errorf("%s is a directory: name one file in it, or a scenario of `conclave chaos list`", name)}
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
		return fmt.Errorf("%d of %s did not hold", failed, plural(o.times, "run"))
	}
	return nil
}

// writeResult prints what was judged: what was not looked at is left out.
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
		fmt.Fprintf(w, "nothing to look at, for lack of an occasion or of what nodes say of themselves: %s\n", strings.Join(idle, ", "))
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
		fmt.Fprintf(w, "%s, seed %d: all held.\n", r.Scenario.Name, r.Scenario.Cluster.Seed)
	}
}
