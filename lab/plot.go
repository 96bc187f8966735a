package lab

import (
	"fmt"
	"math"
)

// plot is the times without a leader after one fault: a row of dots for each rule, all
// on one logarithmic scale. page.html draws it.
type plot struct {
	Title  string
	Height int
	Ticks  []mark
	Rows   []plotRow
}

// plotRow is one rule.
type plotRow struct {
	Y      int
	Label  string
	Dots   []mark
	Median mark   // its Text is empty if there is none
	Note   string // at the right end
}

// mark is a time and its place on the scale.
type mark struct {
	X    float64
	Text string
}

// The measures of a plot, in pixels: where the scale begins and ends, and the height of
// its labels and of a row.
const plotLeft, plotRight, plotHead, plotRowHeight = 210, 930, 24, 20

// plot returns the plot of a fault.
func (r Report) plot(f Fault) plot {
	var all []float64
	for _, row := range r.Rows {
		all = append(all, row.of(f).Samples...)
	}
	low, high := decades(all)
	place := func(ms float64) mark {
		at := math.Log(min(max(ms, low), high)/low) / math.Log(high/low)
		return mark{X: round(plotLeft + (plotRight-plotLeft)*at), Text: number(ms)}
	}
	p := plot{Title: titles[f], Height: plotHead + 8 + len(r.Rows)*plotRowHeight}
	for v := low; v <= high*1.001; v *= 10 {
		p.Ticks = append(p.Ticks, place(v))
	}
	for i, row := range r.Rows {
		c := row.of(f)
		line := plotRow{Y: plotHead + i*plotRowHeight, Label: row.Rule}
		for _, ms := range c.Samples {
			line.Dots = append(line.Dots, place(ms))
		}
		if c.Leaderless.P50 > 0 {
			line.Median = place(c.Leaderless.P50)
		}
		if c.Never > 0 {
			line.Note = fmt.Sprintf("%d of %d: never", c.Never, c.N)
		}
		p.Rows = append(p.Rows, line)
	}
	return p
}

// decades returns the powers of ten between which the samples are.
func decades(samples []float64) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, v := range samples {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		return 1, 10
	}
	low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	return low, max(high, 10*low)
}
