package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"conclave/testbed/load"
)

// Figure is one row of the report: a measurement, its target, and the figure of
// SOFARegistry.
type Figure struct {
	Name string `json:"name"` // stable, for scripts: leader-killed-next-leader
	What string `json:"what"` // description
	Unit string `json:"unit"` // ms, or what the figure counts
	load.Values
	Target   string `json:"target,omitempty"`   // as text
	Reached  *bool  `json:"reached,omitempty"`  // nil: no target
	Original string `json:"original,omitempty"` // of the Java original, see originals
	Note     string `json:"note,omitempty"`
}

// Limit is a target with bounds; a zero bound is not checked.
type Limit struct {
	P50, P99, Max float64 // at most
	AtLeast       float64 // for figures where more is better
}

func (l Limit) holds(v load.Values) bool {
	return (l.P50 == 0 || v.P50 <= l.P50) && (l.P99 == 0 || v.P99 <= l.P99) &&
		(l.Max == 0 || v.Max <= l.Max) && (l.AtLeast == 0 || v.P50 >= l.AtLeast)
}

func (l Limit) words(unit string) string {
	var parts []string
	for _, b := range []struct {
		name string
		v    float64
	}{{"p50", l.P50}, {"p99", l.P99}, {"max", l.Max}} {
		if b.v != 0 {
			parts = append(parts, fmt.Sprintf("%s <= %s", b.name, number(b.v)))
		}
	}
	if l.AtLeast != 0 {
		parts = append(parts, ">= "+number(l.AtLeast))
	}
	if len(parts) > 0 && unit == "ms" {
		parts[len(parts)-1] += " ms"
	}
	return strings.Join(parts, ", ")
}

// Machine describes the machine on which the figures were measured.
type Machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Go   string `json:"go"`
}

func thisMachine() Machine {
	return Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}

// Report is the result of a run.
type Report struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	TookMs  int64     `json:"tookMs"`
	Machine Machine   `json:"machine"`
	Figures []Figure  `json:"figures"`
}

// Write prints the report as a table.
func (r Report) Write(w io.Writer) {
	const row = "%s\t%4s\t%6s\t%6s\t%6s\t%6s\t%s\t%s\t%s\t%s\n"
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, row, "FIGURE", "N", "MIN", "P50", "P99", "MAX", "", "TARGET", "", "JAVA ORIGINAL")
	for _, f := range r.Figures {
		least, p99, most, mark := number(f.Min), number(f.P99), number(f.Max), ""
		if f.N == 1 {
			least, p99, most = "", "", ""
		}
		if f.Reached != nil {
			mark = map[bool]string{true: "ok", false: "MISSED"}[*f.Reached]
		}
		fmt.Fprintf(table, row, f.What, fmt.Sprint(f.N), least, number(f.P50), p99, most, f.Unit, f.Target, mark, f.Original)
	}
	_ = table.Flush() // to memory
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	for _, f := range r.Figures {
		if f.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", f.What, f.Note)
		}
	}
	fmt.Fprintf(w, "\n%s, %d CPUs, %s, conclave %s, %s; took %s\n", r.Machine.OS, r.Machine.CPUs, r.Machine.Go, r.Version,
		r.At.Format(time.RFC3339), (time.Duration(r.TookMs) * time.Millisecond).Round(time.Second))
}

// number formats a number with the digits that matter.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	case v < 100:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case v < 10000:
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
