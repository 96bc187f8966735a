package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/testbed/scenario"
)

func (a *app) chaosCommand() *cobra.Command {
	return group("chaos", "Inject faults by a scenario and check invariants", a.chaosListCommand(), a.chaosRunCommand())
}

// stormName is the name of the random scenario.
const stormName = "storm"

// scenarioRow is one row of the list.
type scenarioRow struct {
	Name  string   `json:"name"`
	On    []string `json:"on"` // where it can run: simulator, local, compose
	About string   `json:"about"`
}

func (a *app) chaosListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [WORD...]", Short: "List the built-in scenarios", Args: cobra.ArbitraryArgs,
		Long: `List the built-in scenarios: the faults F1 to F24, then the others by name. With WORDs
only those whose name or description has each of them; "f0*" and the like are patterns of
names.`,
		RunE: func(_ *cobra.Command, words []string) error {
			rows := []scenarioRow{}
			add := func(name, about string, on []string) {
				if !slices.ContainsFunc(words, func(word string) bool { return !mentions(name, about, word) }) {
					rows = append(rows, scenarioRow{Name: name, On: on, About: summary(about)})
				}
			}
			for _, name := range scenario.Names() {
				s, err := scenario.Builtin(name)
				if err != nil {
					return err
				}
				add(name, s.About, playableOn(s))
			}
			add(stormName, "Random faults, made from --seed.", []string{"simulator", "local", "compose"})
			if len(rows) == 0 {
				return fmt.Errorf("no scenario has %q in its name or description", words)
			}
			isFault := regexp.MustCompile(`^f[0-9]`).MatchString
			slices.SortStableFunc(rows, func(x, y scenarioRow) int {
				return strings.Compare(either(isFault(x.Name), "", "-"), either(isFault(y.Name), "", "-"))
			})
			return a.show(rows, func(w io.Writer) {
				writeRows(w, rows, "NAME ON ABOUT", func(r scenarioRow) []any { return []any{r.Name, strings.Join(r.On, ","), r.About} })
			})
		},
	}
}

// mentions reports whether a scenario has a word, or its name matches a pattern.
func mentions(name, about, word string) bool {
	matches, err := path.Match(word, name)
	return err == nil && matches || strings.Contains(strings.ToLower(name+" "+about), strings.ToLower(word))
}

// playableOn returns where a scenario can run, as far as its actions show.
func playableOn(s scenario.Scenario) []string {
	on := []string{"simulator"}
	for _, name := range []string{"local", "compose"} {
		if len(s.Refusals(capabilities(name))) == 0 {
			on = append(on, name)
		}
	}
	return on
}

// playCommand returns the command that plays a scenario there.
func playCommand(name, on string) string {
	switch on {
	case "simulator":
		return "`make sim SCENARIO=" + name + "`"
	case "compose":
		on = "--on compose"
	}
	return "`" + strings.TrimSpace(program()+" chaos run "+name+" "+strings.TrimPrefix(on, "local")) + "`"
}

func (a *app) chaosRunCommand() *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use: "run NAME|FILE...", Short: "Run scenarios and check the invariants", Args: want("NAME|FILE..."),
		ValidArgsFunction: cobra.FixedCompletions(append(scenario.Names(), stormName), cobra.ShellCompDirectiveDefault),
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
	f.Uint64Var(&o.seed, "seed", 1, "seed of every random choice")
	f.IntVar(&o.times, "times", 1, "number of runs of each scenario, each with the next seed")
	moreThan0(f, "times")
	f.IntVar(&o.beside, "parallel", 1, "number of runs at the same time, with one line of output for each")
	f.StringVar(&o.html, "html", "", "write the report to this file as one HTML page")
	o.bind(cmd, "conclave-chaos", "if an invariant did not hold")
	return cmd
}

func (a *app) scenarioCommand() *cobra.Command {
	return group("scenario", "Write scenarios for `chaos run`", a.scenarioCheckCommand(), &cobra.Command{
		Use: "grammar", Short: "Print the language of scenarios", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			return a.show(map[string]string{"grammar": scenario.Grammar()}, func(w io.Writer) { fmt.Fprint(w, scenario.Grammar()) })
		},
	})
}

// scenarioInfo is what `scenario check` finds in a valid scenario.
type scenarioInfo struct {
	Name         string              `json:"name"`
	About        string              `json:"about"`
	Scenes       int                 `json:"scenes"`
	Actions      int                 `json:"actions"`
	Expectations int                 `json:"expectations"`
	TakesMs      int64               `json:"takesMs"` // until all faults are healed
	On           []string            `json:"on"`      // where it can run: simulator, local, compose
	Needs        map[string][]string `json:"needs"`   // what is missing where it cannot
}

func (a *app) scenarioCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE...", Short: "Check scenarios without running them", Args: want("FILE..."),
		ValidArgsFunction: cobra.FixedCompletions(scenario.Names(), cobra.ShellCompDirectiveDefault),
		Long: `Check the syntax of scenarios, in files or of ` + "`conclave chaos list`" + `, and print where each
of them can run. Exit with 2 at the first error; it names the line.`,
		RunE: func(_ *cobra.Command, args []string) error {
			var all []scenarioInfo
			for _, name := range args {
				s, err := (&chaosOptions{seed: 1}).scenario(name, nil)
				if err != nil {
					return err
				}
				all = append(all, describeScenario(s))
			}
			return a.show(all, func(w io.Writer) {
				for _, i := range all {
					fmt.Fprintf(w, "%s is valid: %s and %s in %s; it runs on %s\n", i.Name, plural(i.Actions, "action"), plural(i.Expectations, "expectation"), ms(i.TakesMs), strings.Join(i.On, ", "))
					for _, on := range slices.Sorted(maps.Keys(i.Needs)) {
						fmt.Fprintf(w, "  not on %s, for it needs: %s\n", on, strings.Join(i.Needs[on], ", "))
					}
				}
			})
		},
	}
}

func describeScenario(s scenario.Scenario) scenarioInfo {
	out := scenarioInfo{
		Name: s.Name, About: s.About, Scenes: len(s.Scenes), TakesMs: s.Until.Milliseconds(), On: playableOn(s), Needs: map[string][]string{},
	}
	for _, l := range s.Lines {
		if l.Expect != nil {
			out.Expectations++
		} else {
			out.Actions++
		}
	}
	for _, on := range []string{"local", "compose"} {
		if why := s.Refusals(capabilities(on)); len(why) > 0 {
			out.Needs[on] = why
		}
	}
	return out
}
