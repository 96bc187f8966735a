package plot

import (
	"html"
	"html/template"
)

// Distribution is one row of a plot.
type Distribution struct {
	Label   string
	Samples []float64 // each is drawn as a dot
	Median  float64   // 0: none
	Note    string    // at the right end
}

const rowHeight = 20

// Distributions draws rows below each other on one logarithmic scale, so that rows
// of one plot can be compared. It returns "" if there are none.
func Distributions(title, unit string, rows []Distribution) template.HTML {
	if len(rows) == 0 {
		return ""
	}
	var all []float64
	for _, r := range rows {
		all = append(all, r.Samples...)
	}
	s := logScale(all)
	var p picture
	p.begin(title, unit, head+8+len(rows)*rowHeight, s)
	top := float64(head)
	for _, r := range rows {
		bottom := top + rowHeight
		middle := (top + bottom) / 2
		p.label(middle, r.Label)
		for _, v := range r.Samples {
			p.add(`<circle cx="%.1f" cy="%.1f" r="4"><title>%s: %s %s</title></circle>`, s.x(v), middle, html.EscapeString(r.Label), number(v), html.EscapeString(unit))
		}
		if r.Median > 0 {
			p.add(`<line class="median" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s: the median is %s %s</title></line>`,
				s.x(r.Median), s.x(r.Median), top+2, bottom-2, html.EscapeString(r.Label), number(r.Median), html.EscapeString(unit))
		}
		if r.Note != "" {
			p.add(`<text class="tick" x="%d" y="%.1f" text-anchor="end" dominant-baseline="middle">%s</text>`, right, middle, html.EscapeString(r.Note))
		}
		top = bottom
	}
	return p.end()
}
