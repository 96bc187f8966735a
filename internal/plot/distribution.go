package plot

import (
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"
)

// Distribution is one row of a plot.
type Distribution struct {
	Label   string
	Samples []float64 // each is drawn as a dot
	Shares  []Share   // of many samples: drawn as the share of them that are at most so large
	Median  float64   // 0: none
	Note    string    // at the right end
}

// Share is the part of the samples, 0 to 1, that are not greater than the value.
type Share struct{ Value, Part float64 }

const (
	stripHeight = 20
	shareHeight = 52
)

// Distributions draws rows below each other on one logarithmic scale, so that rows
// of one plot can be compared. It returns "" if there are none.
func Distributions(title, unit string, rows []Distribution) template.HTML {
	if len(rows) == 0 {
		return ""
	}
	var all []float64
	height := head + 8
	for _, r := range rows {
		all = append(all, r.Samples...)
		for _, s := range r.Shares {
			all = append(all, s.Value)
		}
		height += r.height()
	}
	s := logScale(all)
	var p picture
	p.begin(title, unit, height, s)
	top := float64(head)
	for _, r := range rows {
		bottom := top + float64(r.height())
		middle := (top + bottom) / 2
		p.label(middle, r.Label)
		for _, v := range r.Samples {
			p.add(`<circle cx="%.1f" cy="%.1f" r="4"><title>%s: %s %s</title></circle>`, s.x(v), middle, html.EscapeString(r.Label), number(v), html.EscapeString(unit))
		}
		if len(r.Shares) > 0 {
			p.add(`<path class="share" d="%s"><title>%s: the share of the samples that are at most so large, from none at the bottom to all at the top</title></path>`,
				steps(r.Shares, s, top+4, bottom-6), html.EscapeString(r.Label))
			p.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, right, bottom-6, bottom-6)
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

func (d Distribution) height() int {
	if len(d.Shares) > 0 {
		return shareHeight
	}
	return stripHeight
}

// steps returns the path of shares between two heights: it rises by steps, because a
// share changes only at a sample.
func steps(shares []Share, s scale, top, bottom float64) string {
	sorted := slices.SortedFunc(slices.Values(shares), func(a, b Share) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", s.x(sorted[0].Value), bottom)
	for _, x := range sorted {
		fmt.Fprintf(&b, "H%.1fV%.1f", s.x(x.Value), bottom-(bottom-top)*min(max(x.Part, 0), 1))
	}
	return b.String()
}
