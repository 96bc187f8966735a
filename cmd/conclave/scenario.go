package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"conclave/testbed/scenario"
)

func (a *app) scenarioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "scenario", Short: "Write scenarios for `chaos run`",
		ValidArgs: []string{"check", "grammar"}, Args: cobra.ArbitraryArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(a.scenarioCheckCommand(), &cobra.Command{
		Use: "grammar", Short: "Print the language of scenarios", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			return a.show(map[string]string{"grammar": scenario.Grammar()}, func(w io.Writer) { fmt.Fprint(w, scenario.Grammar()) })
		},
	})
	return cmd
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
		Use: "check FILE...", Short: "Check scenarios without running them", Args: want1("FILE"),
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
					for _, on := range sortedKeys(i.Needs) {
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
