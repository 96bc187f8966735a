package chaos

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// Report is a Result for readers: JSON for machines, one page of HTML for
// people. It holds no history but what a judge pointed at, and the lanes of the
// timeline.
type Report struct {
	Scenario string    `json:"scenario"`
	About    string    `json:"about"`
	Text     string    `json:"text"`
	Seed     uint64    `json:"seed"`
	Ok       bool      `json:"ok"`
	Skipped  string    `json:"skipped,omitempty"`
	Failures []string  `json:"failures"`
	Verdicts []Verdict `json:"verdicts"`
	Figures  []Figure  `json:"figures"`
	Lanes    []Lane    `json:"lanes"`
	LastsMs  int64     `json:"lastsMs"`
	Entries  int       `json:"entries"`
}

// Lane is one host in the timeline, with what happened to it.
type Lane struct {
	Host  string `json:"host"`
	Spans []Bar  `json:"spans"`
}

// Bar is one stretch of a lane.
type Bar struct {
	What   string `json:"what"` // leads, or the verb of a fault
	FromMs int64  `json:"fromMs"`
	ToMs   int64  `json:"toMs"`
	Text   string `json:"text"`
}

// Report makes one of a result.
func (r *Result) Report() Report {
	out := Report{
		Scenario: r.Scenario.Name, About: r.Scenario.About, Text: r.Scenario.String(), Seed: r.Scenario.Cluster.Seed,
		Ok: r.Ok(), Skipped: r.Skipped, Failures: r.Failures, Verdicts: r.Verdicts, Figures: r.Figures,
	}
	if out.Failures == nil {
		out.Failures = []string{}
	}
	if r.History == nil {
		return out
	}
	out.Entries = len(r.History.Entries)
	out.LastsMs = max(1, r.History.end().Milliseconds())
	out.Lanes = r.History.lanes()
	return out
}

// lanes are the hosts in the order in which they are first heard of, metas first.
func (h *History) lanes() []Lane {
	bars := map[string][]Bar{}
	add := func(host, what string, from, to time.Duration, text string) {
		if from = max(0, from); to >= from {
			bars[host] = append(bars[host], Bar{what, from.Milliseconds(), to.Milliseconds(), text})
		}
	}
	for _, b := range h.beliefs() {
		add(b.node.Name, "leads", b.from, min(b.to, h.end()), fmt.Sprintf("%s leads term %d", b.node, b.term))
	}
	if !h.Claims {
		h.seenLeaders(add)
	}
	open := map[string]Entry{}
	for _, e := range h.Entries {
		if e.Fault == nil || e.Fault.Err != nil {
			continue
		}
		a := e.Fault.Act
		k := key(a)
		if ends(a) {
			if began, ok := open[k]; ok {
				add(began.Fault.Node, string(began.Fault.Verb), began.At, e.At, began.Fault.Act.String())
				delete(open, k)
			}
			continue
		}
		if undo(a.Verb) == "" {
			add(a.Node, string(a.Verb), e.At, e.At, a.String())
			continue
		}
		open[k] = e
	}
	for _, k := range sortedKeys(open) {
		e := open[k]
		add(e.Fault.Node, string(e.Fault.Verb), e.At, h.end(), e.Fault.Act.String())
	}
	var out []Lane
	c := cast{cluster: h.Cluster}
	for _, host := range append(c.nodes(), Database) {
		out = append(out, Lane{host, bars[host]})
		delete(bars, host)
	}
	for _, host := range sortedKeys(bars) {
		out = append(out, Lane{host, bars[host]})
	}
	return out
}

// seenLeaders are the leaders by what was seen from outside.
func (h *History) seenLeaders(add func(host, what string, from, to time.Duration, text string)) {
	var last Sighting
	since := time.Duration(0)
	flush := func(at time.Duration) {
		if last.Leader != "" {
			add(last.Leader, "leads", since, at, fmt.Sprintf("%s leads term %d", last.Leader, last.Term))
		}
	}
	for _, e := range h.Entries {
		if e.Sight != nil && (e.Sight.Leader != last.Leader || e.Sight.Term != last.Term) {
			flush(e.At)
			last, since = *e.Sight, e.At
		}
	}
	flush(h.end())
}

// WriteJSON writes the report as one document.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"share": func(ms, of int64) string { return fmt.Sprintf("%.3f%%", 100*float64(ms)/float64(max(1, of))) },
	"width": func(b Bar, of int64) string {
		return fmt.Sprintf("%.3f%%", 100*float64(b.ToMs-b.FromMs)/float64(max(1, of)))
	},
	"class": func(what string) string { return strings.ReplaceAll(what, " ", "-") },
	"ms":    func(d time.Duration) string { return d.Round(10 * time.Microsecond).String() },
	"ticks": func(of int64) []int64 {
		var out []int64
		step := max(1000, (of/10+999)/1000*1000)
		for t := int64(0); t < of; t += step {
			out = append(out, t)
		}
		return out
	},
	"seconds": func(ms int64) string { return fmt.Sprintf("%d s", ms/1000) },
}).Parse(page))

// WriteHTML writes the reports as one page that needs nothing but itself.
func WriteHTML(w io.Writer, reports ...Report) error {
	return pageTemplate.Execute(w, reports)
}
