package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"conclave/internal/plot"
	"conclave/testbed/bench"
)

//go:embed bench.html
var benchPage string

var benchTemplate = template.Must(template.New("bench").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) + plot.Style },
	"plots": benchPlots,
	"mark": func(reached *bool) string {
		if reached == nil {
			return ""
		}
		return map[bool]string{true: "ok", false: "missed"}[*reached]
	},
	"value": func(v float64) string { return fmt.Sprintf("%.4g", v) },
}).Parse(benchPage))

// WriteBench writes the figures of a bench as one page that loads nothing else.
func WriteBench(w io.Writer, r bench.Report) error { return benchTemplate.Execute(w, r) }

// dotsUntil is up to how many samples each one is shown as a dot.
const dotsUntil = 60

// benchPlots returns a plot of the distributions of each unit.
func benchPlots(r bench.Report) (out []template.HTML) {
	var units []string
	rows := map[string][]plot.Distribution{}
	for _, f := range r.Figures {
		if f.N < 2 {
			continue
		}
		d := plot.Distribution{Label: f.Name, Median: f.P50, Note: fmt.Sprintf("n = %d", f.N)}
		last := 0.0
		for _, s := range f.Shares() {
			d.Shares = append(d.Shares, plot.Share(s))
			for range int((s.Part-last)*float64(f.N) + 0.5) {
				d.Samples = append(d.Samples, s.Value)
			}
			last = s.Part
		}
		if f.N > dotsUntil {
			d.Samples = nil
		} else {
			d.Shares = nil
		}
		if rows[f.Unit] == nil {
			units = append(units, f.Unit)
		}
		rows[f.Unit] = append(rows[f.Unit], d)
	}
	for _, u := range units {
		out = append(out, plot.Distributions("distributions in "+u, u, rows[u]))
	}
	return out
}
