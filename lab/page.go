package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("lab").Funcs(template.FuncMap{
	"number": number,
	"x":      func(v float64) string { return fmt.Sprintf("%.1f", plotX(v)) },
	"y":      func(i int) int { return rowTop + i*rowHeight + 2 },
	"bottom": func(i int) int { return rowTop + (i+1)*rowHeight - 2 },
	"middle": func(i int) int { return rowTop + i*rowHeight + rowHeight/2 },
	"height": func(rows []Row) int { return rowTop + len(rows)*rowHeight + 8 },
	"of":     func(r Row, f Fault) Cell { return r.of(f) },
	"total":  func(r Row) Cell { return r.total() },
	"ticks":  func() []float64 { return []float64{1, 10, 100, 1000, 10000} },
	"faults": Faults,
	"title":  func(f Fault) string { return titles[f] },
	"notes":  Report.notes,
	"known":  known,
	"lease":  Row.lease, "counts": Row.counts, "overlap": Row.overlap, "guarded": Row.guarded, "landed": Row.landed, "preface": Report.preface,
	"median": func(v Values) string { return Cell{}.median(v) },
}).Parse(page))

// The dimensions of the plots, in pixels.
const (
	plotLeft  = 130
	plotWidth = 780
	rowTop    = 24
	rowHeight = 20
)

// plotX returns the horizontal position of a figure in milliseconds, on a
// logarithmic scale from half a millisecond to half a minute.
func plotX(v float64) float64 {
	const low, high = 0.5, 30000
	v = min(max(v, low), high)
	return plotLeft + plotWidth*math.Log(v/low)/math.Log(high/low)
}

var titles = map[Fault]string{
	Kill: "Killed (SIGKILL)", Term: "Stopped gracefully (SIGTERM)",
	Pause: "Paused (SIGSTOP)", Partition: "Cut off from its store",
}

// WriteHTML writes the report as one HTML page without external resources.
func (r Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }
