package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"conclave/testbed/bench"
)

//go:embed growth.html
var growthPage string

var growthTemplate = template.Must(template.New("growth").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(style) },
	"lower":  strings.ToLower,
	"took":   func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() },
	"graphs": graphs,
}).Parse(growthPage))

// WriteGrowth writes growth curves as one page that loads nothing else.
func WriteGrowth(w io.Writer, g bench.Growth) error { return growthTemplate.Execute(w, g) }

// graph is a plot with the coordinates of everything in it, in a picture of 540
// by 300.
type graph struct {
	What, X        string
	XTicks, YTicks []tick
	Lines          []line
}

type tick struct {
	At    float64
	Label string
}

type line struct {
	Label, Color, Points string
	Dots                 []dot
}

type dot struct {
	X, Y float64
	Text string
}

// The area of the lines in the picture.
const (
	graphLeft, graphRight = 70.0, 520.0
	graphTop, graphBottom = 15.0, 250.0
)

var lineColors = []string{"#3b6fd4", "#c0392b", "#2a7d4f", "#b9741a", "#8e6bb0", "#16858c"}

// graphs returns the plots of a curve that have points. Sizes have a logarithmic
// axis, figures a linear one from 0.
func graphs(c bench.Curve) (out []graph) {
	for _, p := range c.Plots {
		if g, ok := newGraph(c, p); ok {
			out = append(out, g)
		}
	}
	return out
}

func newGraph(c bench.Curve, p bench.Plot) (graph, bool) {
	g := graph{What: p.What, X: strings.ToLower(column(c, p.X).Head())}
	var sizes []float64
	highest := 0.0
	var labels []string
	points := map[string][]bench.Point{}
	for _, one := range c.Points {
		x, hasX := one.Values[p.X]
		y, hasY := one.Values[p.Y]
		if !hasX || !hasY || x <= 0 {
			continue
		}
		sizes, highest = append(sizes, x), max(highest, y)
		label := one.Target
		if by, ok := one.Values[p.By]; ok {
			label += fmt.Sprintf(", %s %s", strings.ToLower(column(c, p.By).What), number(by))
		}
		if !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
		points[label] = append(points[label], one)
	}
	if len(sizes) == 0 {
		return g, false
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	least, most := math.Log(sizes[0]), math.Log(sizes[len(sizes)-1])
	at := func(x float64) float64 {
		if most == least {
			return (graphLeft + graphRight) / 2
		}
		return round(graphLeft + (math.Log(x)-least)/(most-least)*(graphRight-graphLeft))
	}
	step := niceStep(highest)
	top := max(step, math.Ceil(highest/step)*step)
	height := func(y float64) float64 { return round(graphBottom - y/top*(graphBottom-graphTop)) }
	for i := 0.0; i*step <= top*1.0001; i++ {
		g.YTicks = append(g.YTicks, tick{height(i * step), number(i * step)})
	}
	for _, x := range sizes {
		g.XTicks = append(g.XTicks, tick{at(x), number(x)})
	}
	for i, name := range labels {
		l := line{Label: name, Color: lineColors[i%len(lineColors)]}
		of := points[name]
		slices.SortFunc(of, func(a, b bench.Point) int { return int(math.Copysign(1, a.Values[p.X]-b.Values[p.X])) })
		var path []string
		for _, one := range of {
			d := dot{at(one.Values[p.X]), height(one.Values[p.Y]), number(one.Values[p.X]) + ": " + number(one.Values[p.Y])}
			l.Dots = append(l.Dots, d)
			path = append(path, fmt.Sprintf("%g,%g", d.X, d.Y))
		}
		l.Points = strings.Join(path, " ")
		g.Lines = append(g.Lines, l)
	}
	return g, true
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

func round(v float64) float64 { return math.Round(v*10) / 10 }

// niceStep returns a step of 1, 2 or 5 times a power of ten with which at most six
// ticks reach a value.
func niceStep(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1, 2, 5} {
		if highest <= 5*f*power {
			return f * power
		}
	}
	return 10 * power
}
