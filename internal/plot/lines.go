package plot

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Line is a row of measurements that belong together.
type Line struct {
	Label  string // "": the only one
	Series int    // chooses its colour, dashes and marks: a line is known without its colour
	Points []Point
}

// Point is a measurement: how much of something, and the figure there.
type Point struct{ Size, Figure float64 }

// The measures of a picture of lines, in pixels: the area of the lines, and a row of
// the key.
const (
	linesWidth, linesLeft, linesRight = 560, 100, 510
	linesHeight                       = 225
	keyHeight                         = 22
	labelWidth                        = 85 // of a size's label
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

// Lines draws how figures grow with sizes, which are positive and on a logarithmic
// scale. The figures are on a linear scale from 0, or on a logarithmic one if the
// largest is 50 times the smallest or more. It returns "" if there are no points.
func Lines(title, sizeName string, lines []Line) template.HTML {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return len(l.Points) == 0 })
	if len(lines) == 0 {
		return ""
	}
	var sizes, figures []float64
	for i, l := range lines {
		lines[i].Points = slices.SortedStableFunc(slices.Values(l.Points), func(a, b Point) int { return cmp.Compare(a.Size, b.Size) })
		for _, p := range l.Points {
			sizes, figures = append(sizes, p.Size), append(figures, p.Figure)
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	x, y := scale{sizes[0], sizes[len(sizes)-1], true}, figureScale(figures)
	if y.log {
		title += ", log scale"
	}
	if len(sizes) > 1 {
		sizeName += ", log scale"
	}
	key := 0
	if len(lines) > 1 || lines[0].Label != "" {
		key = keyHeight * len(lines)
	}
	top := float64(15 + key)
	bottom := top + linesHeight
	across := func(v float64) float64 { return x.place(v, linesLeft, linesRight) }
	up := func(v float64) float64 { return y.place(v, bottom, top) }

	var p picture
	p.add(`<svg class="plot lines" viewBox="0 0 %d %.0f" role="img" aria-label="%s">`, linesWidth, bottom+60, html.EscapeString(title))
	for _, v := range y.ticks() {
		p.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, linesLeft, linesRight, up(v), up(v))
		p.add(`<text x="%d" y="%.1f" dy=".35em" text-anchor="end">%s</text>`, linesLeft-7, up(v), number(v))
	}
	p.add(`<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, linesLeft, linesRight, bottom, bottom)
	last := 0.0
	for _, v := range sizes {
		if last == 0 || across(v)-last >= labelWidth {
			last = across(v)
			p.add(`<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, last, last, bottom, bottom+5)
			p.add(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, last, bottom+23, number(v))
		}
	}
	p.add(`<text x="%d" y="%.1f" text-anchor="middle">%s</text>`, (linesLeft+linesRight)/2, bottom+49, html.EscapeString(sizeName))
	for i, l := range lines {
		mark := marks[l.Series%len(marks)]
		p.add(`<g class="s%d">`, l.Series%len(marks))
		var path []string
		for _, one := range l.Points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", across(one.Size), up(one.Figure)))
		}
		p.add(`<polyline points="%s"/>`, strings.Join(path, " "))
		for _, one := range l.Points {
			p.add(`<path class="dot" d="%s" transform="translate(%.1f,%.1f)"><title>%s: %s</title></path>`, mark, across(one.Size), up(one.Figure), number(one.Size), number(one.Figure))
		}
		if key > 0 {
			at := keyHeight/2 + keyHeight*i
			p.add(`<line class="key" x1="%d" x2="%d" y1="%d" y2="%d"/><path class="dot" d="%s" transform="translate(%d,%d)"/>`, linesLeft, linesLeft+30, at, at, mark, linesLeft+15, at)
			p.add(`<text x="%d" y="%d" dy=".35em">%s</text>`, linesLeft+40, at, html.EscapeString(l.Label))
		}
		p.add(`</g>`)
	}
	return p.end()
}

// figureScale returns the scale of the figures.
func figureScale(figures []float64) scale {
	lowest, highest := slices.Min(figures), slices.Max(figures)
	if lowest >= 0.01 && highest >= 50*lowest {
		return logScale(figures)
	}
	step := niceStep(highest)
	return scale{high: max(step, math.Ceil(highest/step)*step)}
}
