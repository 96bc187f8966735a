package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// Report is a Result for readers: as JSON for programs, as an HTML page for
// people. Of the history it contains only the evidence of violations and the
// lanes of the timeline.
type Report struct {
	Scenario string          `json:"scenario"`
	About    string          `json:"about"`
	Text     string          `json:"text"`
	Seed     uint64          `json:"seed"`
	Ok       bool            `json:"ok"`
	Skipped  string          `json:"skipped,omitempty"`
	Failures []string        `json:"failures"`
	Verdicts []check.Verdict `json:"verdicts"`
	Figures  []check.Figure  `json:"figures"`
	Lanes    []Lane          `json:"lanes"`
	Faults   []Done          `json:"faults"`
	LastsMs  int64           `json:"lastsMs"`
	Entries  int             `json:"entries"`
}

// Done is one act that was carried out.
type Done struct {
	AtMs int64  `json:"atMs"`
	What string `json:"what"`
	Err  string `json:"error,omitempty"` // why it failed
}

// Lane is one host in the timeline, with its leaderships and faults.
type Lane struct {
	Host  string `json:"host"`
	Spans []Bar  `json:"spans"`
}

// Bar is one span of a lane.
type Bar struct {
	What   string `json:"what"` // leads, or the verb of a fault
	Short  string `json:"-"`    // the label on the bar
	FromMs int64  `json:"fromMs"`
	ToMs   int64  `json:"toMs"`
	Text   string `json:"text"`
}

// New makes a report of a result.
func New(r *scenario.Result) Report {
	out := Report{
		Scenario: r.Scenario.Name, About: r.Scenario.About, Text: r.Scenario.String(), Seed: r.Scenario.Cluster.Seed,
		Ok: r.Ok(), Skipped: r.Skipped, Failures: r.Failures, Verdicts: inOrder(r.Verdicts), Figures: r.Figures,
		Lanes: []Lane{}, Faults: []Done{},
	}
	if out.Failures == nil {
		out.Failures = []string{}
	}
	if r.History == nil {
		return out
	}
	out.Entries = len(r.History.Entries)
	out.LastsMs = max(1, r.History.End().Milliseconds())
	out.Lanes = lanes(r.History)
	for _, e := range r.History.Entries {
		if e.Fault == nil {
			continue
		}
		d := Done{AtMs: e.At.Milliseconds(), What: e.Fault.Action.String()}
		if e.Fault.Err != nil {
			d.Err = e.Fault.Err.Error()
		}
		out.Faults = append(out.Faults, d)
	}
	return out
}

// inOrder returns the verdicts sorted by letter and number: I1 to I13, then the
// rules.
func inOrder(verdicts []check.Verdict) []check.Verdict {
	number := func(v check.Verdict) int {
		n, err := strconv.Atoi(strings.TrimLeft(v.ID, "ILP"))
		if err != nil {
			return 0
		}
		return n
	}
	out := slices.Clone(verdicts)
	slices.SortStableFunc(out, func(a, b check.Verdict) int {
		return cmp.Or(cmp.Compare(a.ID[:1], b.ID[:1]), cmp.Compare(number(a), number(b)))
	})
	return out
}

// lanes returns a lane for each host: metas, sessions, data nodes, the
// database, and then the others that have bars.
func lanes(h *check.History) []Lane {
	bars := map[string][]Bar{}
	add := func(host, what, short string, from, to time.Duration, text string) {
		if from = max(0, from); to >= from {
			bars[host] = append(bars[host], Bar{What: what, Short: short, FromMs: from.Milliseconds(), ToMs: to.Milliseconds(), Text: text})
		}
	}
	fault := func(a testbed.Action, from, to time.Duration) {
		if a.Verb == testbed.Switch {
			return // a switch belongs to no host
		}
		add(a.Node, string(a.Verb), string(a.Verb), from, to, a.String())
		if a.Peer != "" && a.Peer != a.Node { // a fault on a link affects both ends
			add(a.Peer, string(a.Verb), string(a.Verb), from, to, a.String())
		}
	}
	for _, b := range h.Leaderships() {
		add(b.Node.Name, "leads", fmt.Sprint("term ", b.Term), b.From, min(b.To, h.End()), fmt.Sprintf("%s leads term %d", b.Node, b.Term))
	}
	if !h.HasEvents {
		seenLeaders(h, add)
	}
	open := map[string]check.Entry{}
	for _, e := range h.Entries {
		if e.Fault == nil || e.Fault.Err != nil {
			continue
		}
		a := e.Fault.Action
		k := a.Key()
		if a.EndsFault() {
			if began, ok := open[k]; ok {
				fault(began.Fault.Action, began.At, e.At)
				delete(open, k)
			}
			continue
		}
		if a.Verb.Undo() == "" {
			fault(a, e.At, e.At)
			continue
		}
		open[k] = e
	}
	for _, k := range slices.Sorted(maps.Keys(open)) {
		e := open[k]
		fault(e.Fault.Action, e.At, h.End())
	}
	var out []Lane
	for _, host := range append(h.Cluster.Nodes(), testbed.Database) {
		out = append(out, Lane{host, bars[host]})
		delete(bars, host)
	}
	for _, host := range slices.Sorted(maps.Keys(bars)) {
		out = append(out, Lane{host, bars[host]})
	}
	return out
}

// seenLeaders adds the leaders that were observed from outside.
func seenLeaders(h *check.History, add func(host, what, short string, from, to time.Duration, text string)) {
	var last check.Observation
	since := time.Duration(0)
	flush := func(at time.Duration) {
		if last.Leader != "" {
			add(last.Leader, "leads", fmt.Sprint("term ", last.Term), since, at, fmt.Sprintf("%s leads term %d", last.Leader, last.Term))
		}
	}
	for _, e := range h.Entries {
		if e.Observed != nil && (e.Observed.Leader != last.Leader || e.Observed.Term != last.Term) {
			flush(e.At)
			last, since = *e.Observed, e.At
		}
	}
	flush(h.End())
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
	"at":      func(ms int64) string { return fmt.Sprintf("%8.3f s", float64(ms)/1000) },
	"seconds": func(ms int64) string { return fmt.Sprintf("%d s", ms/1000) },
}).Parse(page))

// WriteHTML writes the reports as one page that loads nothing else.
func WriteHTML(w io.Writer, reports ...Report) error {
	return pageTemplate.Execute(w, reports)
}
