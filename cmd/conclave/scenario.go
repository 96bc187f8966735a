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
		Use: "scenario", Short: "Check scenarios before they are run, and describe them",
		ValidArgs: []string{"check", "grammar"}, Args: cobra.ArbitraryArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "check FILE...", Short: "Check files without running them", Args: want1("FILE"),
		Long: `Read each file as "conclave chaos run" would, and print where it can run. Exit with 2 at
the first line that is not understood.`,
		RunE: func(_ *cobra.Command, args []string) error {
			var rows []scenarioRow
			for _, name := range args {
				s, err := (&chaosOptions{}).scenario(name, nil)
				if err != nil {
					return err
				}
				rows = append(rows, scenarioRow{Name: s.Name, On: playableOn(s), About: summary(s.About)})
			}
			return a.show(rows, func(w io.Writer) {
				for _, r := range rows {
					fmt.Fprintf(w, "%s: can run on %s\n", r.Name, strings.Join(r.On, ", "))
				}
			})
		},
	}, &cobra.Command{
		Use: "grammar", Short: "Describe the language of scenarios", Args: want(),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.stdout, scenario.Language())
			return err
		},
	})
	return cmd
}
