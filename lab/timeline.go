package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"conclave/internal/plot"
)

// Led is a leadership of a rule's run, for the report.
type Led struct {
	Process string  `json:"process"`
	FromMs  float64 `json:"fromMs"` // since the first leadership began
	ToMs    float64 `json:"toMs"`
}

// Injected is a fault of a rule's run, for the report.
type Injected struct {
	Process string  `json:"process"`
	AtMs    float64 `json:"atMs"`
}

// timeline notes who led, and when faults were injected, until a time.
func (r *Row) timeline(leaderships []Leadership, faults []Span, until int64) {
	if len(leaderships) == 0 {
		return
	}
	first := slices.MinFunc(leaderships, func(a, b Leadership) int { return int(min(max(a.From-b.From, -1), 1)) }).From
	since := func(at int64) float64 { return round(float64(at-first) / 1e6) }
	for _, l := range leaderships {
		r.Led = append(r.Led, Led{l.Process, since(l.From), since(max(l.From, min(l.end(), until)))})
	}
	for _, f := range faults {
		r.Injected = append(r.Injected, Injected{f.Process, since(f.From)})
	}
}

// lanes returns a lane for each candidate. A leadership is one that its process only
// believed in from the moment at which another process began to lead.
func (r Row) lanes() []plot.Lane {
	lanes := map[string]*plot.Lane{}
	lane := func(process string) *plot.Lane {
		name, _, _ := strings.Cut(process, "@")
		if lanes[name] == nil {
			lanes[name] = &plot.Lane{Label: name}
		}
		return lanes[name]
	}
	for _, l := range r.Led {
		next := l.ToMs
		for _, other := range r.Led {
			if other.Process != l.Process && other.FromMs > l.FromMs {
				next = min(next, other.FromMs)
			}
		}
		x := lane(l.Process)
		x.Bars = append(x.Bars, plot.Bar{From: l.FromMs / 1000, To: next / 1000, Text: fmt.Sprintf("%s leads for %s ms", l.Process, number(next-l.FromMs))})
		if next < l.ToMs {
			x.Bars = append(x.Bars, plot.Bar{
				From: next / 1000, To: l.ToMs / 1000, Believed: true, Text: fmt.Sprintf("%s only believed that it leads, for %s ms", l.Process, number(l.ToMs-next)),
			})
		}
	}
	for _, f := range r.Injected {
		x := lane(f.Process)
		x.Marks = append(x.Marks, plot.Mark{At: f.AtMs / 1000, Text: "a fault of " + f.Process})
	}
	var out []plot.Lane
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		out = append(out, *lanes[name])
	}
	return out
}
