package plot

import (
	"html"
	"html/template"
)

// Lane is a process with its intervals.
type Lane struct {
	Label string
	Bars  []Bar
	Marks []Mark
}

// Bar is an interval, in seconds.
type Bar struct {
	From, To float64
	Believed bool // it only believed that it leads: another one had begun to lead
	Text     string
}

// Mark is a moment, in seconds.
type Mark struct {
	At   float64
	Text string
}

const laneHeight = 22

// Lanes draws who led, and who only believed so, over time. It returns "" if there
// are no lanes.
func Lanes(title string, lanes []Lane) template.HTML {
	if len(lanes) == 0 {
		return ""
	}
	s := scale{low: 0, high: 1}
	for _, l := range lanes {
		for _, b := range l.Bars {
			s.high = max(s.high, b.To)
		}
		for _, m := range l.Marks {
			s.high = max(s.high, m.At)
		}
	}
	var p picture
	p.begin(title, "s", head+laneHeight*len(lanes)+8, s)
	for i, l := range lanes {
		y := float64(head + i*laneHeight)
		p.label(y+laneHeight/2, l.Label)
		for _, b := range l.Bars {
			class, top, height := "led", y+3, laneHeight-6
			if b.Believed { // another shape too
				class, top, height = "believed", y+7, laneHeight-14
			}
			p.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d"><title>%s</title></rect>`,
				class, s.x(b.From), top, max(1, s.x(b.To)-s.x(b.From)), height, html.EscapeString(b.Text))
		}
		for _, m := range l.Marks {
			x := s.x(m.At)
			p.add(`<path class="fault" d="M%.1f %.1fl5 -8h-10z"><title>%s</title></path>`, x, y+8, html.EscapeString(m.Text))
		}
	}
	return p.end()
}
