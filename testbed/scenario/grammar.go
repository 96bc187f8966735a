package scenario

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

//go:embed doc.go
var source string

// Grammar describes the language for the authors of scenarios: the text of this
// package's documentation, then the actions, expectations, points, switches and figures.
func Grammar() string {
	_, text, _ := strings.Cut(source, "// # The language\n")
	text, _, _ = strings.Cut(text, "// # Storms\n")
	var b strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(text, "//\n")) {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(line, "//"), " "), "\n")
		b.WriteString(strings.Replace(line, "\t", "  ", 1) + "\n")
	}
	b.WriteString("The actions, of which most can end with \"for D\":\n\n")
	for _, f := range testbed.Forms {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-36s %s", f.Words, f.About), " ") + "\n")
	}
	b.WriteString("\nThe expectations, each with \"within D\" or \"for D\":\n\n")
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		c := conditions[name]
		for _, w := range []struct {
			has  bool
			word string
		}{{c.who, " WHO"}, {c.point, " at POINT"}, {c.count, " COUNT"}} {
			if w.has {
				name += w.word
			}
		}
		fmt.Fprintf(&b, "  %-24s %s\n", name, c.about)
	}
	b.WriteString("\nThe figures:\n\n")
	for _, f := range check.Figures(&check.History{}, check.FigureNames()) {
		fmt.Fprintf(&b, "  %-24s %s\n", f.Name, f.Says)
	}
	var points []string
	for _, p := range trace.Points() {
		points = append(points, string(p))
	}
	fmt.Fprintf(&b, "\nThe points: %s\nThe switches: %s\n", strings.Join(points, ", "), strings.Join(slices.Sorted(maps.Keys(testbed.SwitchDefaults)), ", "))
	return b.String()
}
