package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"conclave/internal/plot"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("lab").Funcs(template.FuncMap{
	"number": number,
	"faults": Faults,
	"style":  func() template.CSS { return plot.Style },
	"plot":   Report.plot,
	"title":  func(f Fault) string { return titles[f] },
	"notes":  Report.notes, "preface": Report.preface, "tables": Report.tables,
}).Parse(page))

// plot draws the times without a leader after a fault, of all rules on one scale.
func (r Report) plot(f Fault) template.HTML {
	var rows []plot.Distribution
	for _, row := range r.Rows {
		c := row.of(f)
		d := plot.Distribution{Label: row.Rule, Samples: c.Samples, Median: c.Leaderless.P50}
		if c.Never > 0 {
			d.Note = fmt.Sprintf("%d of %d: never", c.Never, c.N)
		}
		rows = append(rows, d)
	}
	return plot.Distributions(titles[f], "ms", rows)
}

var titles = map[Fault]string{
	Kill: "Killed (SIGKILL)", Term: "Stopped gracefully (SIGTERM)",
	Pause: "Paused (SIGSTOP)", Partition: "Cut off from its store",
}

// WriteHTML writes the report as one HTML page without external resources.
func (r Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }
