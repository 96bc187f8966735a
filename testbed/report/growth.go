package report

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"conclave/internal/plot"
	"conclave/testbed/bench"
)

//go:embed growth.html
var growthPage string

var growthTemplate = template.Must(template.New("growth").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) + plot.Style },
	"head":  head,
	"took":  func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() },
	"plots": curvePlots,
}).Parse(growthPage))

// WriteGrowth writes growth curves as one page that loads nothing else.
func WriteGrowth(w io.Writer, g bench.Growth) error { return growthTemplate.Execute(w, g) }

// picture is a plot of a curve.
type picture struct {
	What    string
	Picture template.HTML
}

// curvePlots returns the plots of a curve that have points.
func curvePlots(c bench.Curve) (out []picture) {
	for _, p := range c.Plots {
		var lines []plot.Line
		for i, label := range labels(c, p) {
			l := plot.Line{Label: label, Series: i}
			for _, one := range c.Points {
				figure, has := one.Values[p.Y]
				if size := one.Values[p.X]; has && size > 0 && lineLabel(c, p, one) == label {
					l.Points = append(l.Points, plot.Point{Size: size, Figure: figure})
				}
			}
			lines = append(lines, l)
		}
		if drawn := plot.Lines(p.What, head(column(c, p.X)), lines); drawn != "" {
			out = append(out, picture{p.What, drawn})
		}
	}
	return out
}

// labels returns the labels of the lines of a plot, in the order of the points. A
// label has the same place, and so the same colour, in all plots of a curve.
func labels(c bench.Curve, p bench.Plot) (out []string) {
	for _, one := range c.Points {
		if label := lineLabel(c, p, one); !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	return out
}

// lineLabel returns the label of the line that a point belongs to: the target if
// there are several, and the value of the column that separates the lines.
func lineLabel(c bench.Curve, p bench.Plot, one bench.Point) string {
	var parts []string
	if slices.ContainsFunc(c.Points, func(x bench.Point) bool { return x.Target != one.Target }) {
		parts = append(parts, one.Target)
	}
	if by, ok := one.Values[p.By]; ok {
		parts = append(parts, head(column(c, p.By))+" "+number(by))
	}
	return strings.Join(parts, ", ")
}

// head returns the head of a column in lower case, with its unit as it is.
func head(c bench.Column) string {
	c.What = strings.ToLower(c.What)
	return c.Head()
}

// column returns a column of a curve by its name.
func column(c bench.Curve, name string) bench.Column {
	i := slices.IndexFunc(c.Columns, func(x bench.Column) bool { return x.Name == name })
	if i < 0 {
		return bench.Column{Name: name, What: name}
	}
	return c.Columns[i]
}

// number formats a number as the tables do.
func number(v float64) string {
	return bench.Point{Values: map[string]float64{"v": v}}.Cell(bench.Column{Name: "v"})
}
