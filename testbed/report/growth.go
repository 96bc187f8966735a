package report

import (
	"cmp"
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
	"head":   head,
	"mark":   mark,
	"took":   func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() },
	"graphs": graphs,
}).Parse(growthPage))

// WriteGrowth writes growth curves as one page that loads nothing else.
func WriteGrowth(w io.Writer, g bench.Growth) error { return growthTemplate.Execute(w, g) }

// graph is a plot with the coordinates of everything in it, in a picture of 560
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

// line is the points of one label. Series is its colour, dashes and marks, which are
// classes in style.css and marks: a line is known without its colour.
type line struct {
	Label, Points string
	Series        int
	Dots          []dot
}

type dot struct {
	X, Y float64
	Text string
}

// Key reports whether the picture needs a key: its lines have labels.
func (g graph) Key() bool { return len(g.Lines) > 1 || g.Lines[0].Label != "" }

// The area of the lines in the picture.
const (
	graphLeft, graphRight = 100.0, 510.0
	graphTop, graphBottom = 15.0, 240.0
	labelWidth            = 85.0 // of a tick's label on the axis of the sizes
)

// marks are the shapes of the points of a series, drawn around their centre.
var marks = []string{
	"M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",                  // circle
	"M-4,-4h8v8h-8z",                                       // square
	"M0,-5l5,9h-10z",                                       // triangle
	"M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z",                  // diamond
	"M0,5l5,-9h-10z",                                       // triangle, point down
	"M-5,-1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z", // cross
}

func mark(series int) string { return marks[series] }

// graphs returns the plots of a curve that have points.
func graphs(c bench.Curve) (out []graph) {
	for _, p := range c.Plots {
		if g, ok := newGraph(c, p); ok {
			out = append(out, g)
		}
	}
	return out
}

func newGraph(c bench.Curve, p bench.Plot) (graph, bool) {
	points := c.Points[:0:0]
	for _, one := range c.Points {
		_, hasY := one.Values[p.Y]
		if hasY && one.Values[p.X] > 0 {
			points = append(points, one)
		}
	}
	if len(points) == 0 {
		return graph{}, false
	}
	slices.SortStableFunc(points, func(a, b bench.Point) int { return cmp.Compare(a.Values[p.X], b.Values[p.X]) })
	var sizes, figures []float64
	for _, one := range points {
		sizes, figures = append(sizes, one.Values[p.X]), append(figures, one.Values[p.Y])
	}
	sizes = slices.Compact(sizes)
	x := scale{sizes[0], sizes[len(sizes)-1], graphLeft, graphRight, true}
	y, ticks := figureScale(figures)
	g := graph{What: p.What, X: head(column(c, p.X))}
	if y.log {
		g.What += ", log scale"
	}
	if len(sizes) > 1 {
		g.X += ", log scale"
	}
	for _, v := range ticks {
		g.YTicks = append(g.YTicks, tick{y.at(v), number(v)})
	}
	for _, v := range sizes {
		if n := len(g.XTicks); n == 0 || x.at(v)-g.XTicks[n-1].At >= labelWidth {
			g.XTicks = append(g.XTicks, tick{x.at(v), number(v)})
		}
	}
	for i, label := range labels(c, p) {
		l := line{Label: label, Series: i % len(marks)}
		var path []string
		for _, one := range points {
			if lineLabel(c, p, one) != label {
				continue
			}
			size, figure := one.Values[p.X], one.Values[p.Y]
			d := dot{x.at(size), y.at(figure), number(size) + ": " + number(figure)}
			l.Dots = append(l.Dots, d)
			path = append(path, fmt.Sprintf("%g,%g", d.X, d.Y))
		}
		if len(l.Dots) > 0 {
			l.Points = strings.Join(path, " ")
			g.Lines = append(g.Lines, l)
		}
	}
	return g, true
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

// scale places the values from least to most between two coordinates.
type scale struct {
	least, most float64
	from, to    float64
	log         bool
}

func (s scale) at(v float64) float64 {
	least, most := s.least, s.most
	if s.log {
		v, least, most = math.Log(v), math.Log(least), math.Log(most)
	}
	if most == least {
		return (s.from + s.to) / 2
	}
	return math.Round((s.from+(v-least)/(most-least)*(s.to-s.from))*10) / 10
}

// figureScale returns the scale of the figures and its ticks: linear from 0, or
// logarithmic if the largest is 50 times the smallest or more.
func figureScale(figures []float64) (scale, []float64) {
	lowest, highest := slices.Min(figures), slices.Max(figures)
	var ticks []float64
	if lowest >= 0.01 && highest >= 50*lowest {
		for e := math.Floor(math.Log10(lowest)); e <= math.Ceil(math.Log10(highest)); e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return scale{ticks[0], ticks[len(ticks)-1], graphBottom, graphTop, true}, ticks
	}
	step := niceStep(highest)
	top := max(step, math.Ceil(highest/step)*step)
	for i := 0.0; i*step <= top*1.0001; i++ {
		ticks = append(ticks, i*step)
	}
	return scale{0, top, graphBottom, graphTop, false}, ticks
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
