package plot

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Style is the style sheet of the plots.
const Style template.CSS = `.plot { width: 100%; height: auto; font: 12px system-ui, sans-serif } .plot text { fill: currentColor } .plot .tick { fill: #888 } .plot .grid { stroke: #8884 }
.plot circle { fill: #3b6fd4; fill-opacity: .5 } .plot .median { stroke: #c0392b; stroke-width: 2 }`

// The measures of a plot, in pixels.
const (
	left  = 210
	right = 930
	width = 940
	head  = 24 // for the labels of the scale
)

// scale places values between two powers of ten.
type scale struct{ low, high float64 }

func (s scale) x(v float64) float64 {
	v = min(max(v, s.low), s.high)
	return left + (right-left)*(math.Log(v/s.low)/math.Log(s.high/s.low))
}

// logScale returns a scale of powers of ten that has all values, of which there is
// at least one positive one.
func logScale(values []float64) scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 1) {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		return scale{1, 10}
	}
	s := scale{math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))}
	if s.low == s.high {
		s.high *= 10
	}
	return s
}

// ticks returns the values that are written on the scale.
func (s scale) ticks() (out []float64) {
	for v := s.low; v <= s.high*1.001; v *= 10 {
		out = append(out, v)
	}
	return out
}

// picture is an SVG that is being written.
type picture struct{ strings.Builder }

// begin writes the beginning of a picture, with its scale.
func (p *picture) begin(title, unit string, height int, s scale) {
	p.add(`<svg class="plot" viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, html.EscapeString(title))
	for _, v := range s.ticks() {
		p.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="18" y2="%d"/>`, s.x(v), s.x(v), height)
		anchor := "middle"
		if s.x(v) > right-30 { // it would be cut off
			anchor = "end"
		}
		p.add(`<text class="tick" x="%.1f" y="12" text-anchor="%s">%s %s</text>`, s.x(v), anchor, number(v), html.EscapeString(unit))
	}
}

// label writes the name of a row.
func (p *picture) label(y float64, text string) {
	p.add(`<text x="0" y="%.1f" dominant-baseline="middle">%s</text>`, y, html.EscapeString(text))
}

func (p *picture) end() template.HTML {
	p.add(`</svg>`)
	return template.HTML(p.String()) //nolint:gosec // every text in it is escaped
}

func (p *picture) add(format string, values ...any) { fmt.Fprintf(p, format+"\n", values...) }

// number formats a value with three digits, and large ones with commas.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 10_000 && math.Abs(v) < 1e15:
		text := fmt.Sprintf("%.0f", v)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case v == math.Trunc(v) && math.Abs(v) < 1e15, math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
