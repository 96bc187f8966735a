package lab

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a run.
type Report struct {
	At         time.Time `json:"at"`
	Version    string    `json:"version"`
	Database   string    `json:"database"`
	ZooKeeper  string    `json:"zookeeper"`
	Candidates int       `json:"candidates"` // in each election
	LeaseMs    float64   `json:"leaseMs"`    // of all rules whose lease can be set
	Own        bool      `json:"own"`        // each rule had its own defaults instead
	ActMs      float64   `json:"actMs"`      // between two writes of a leader
	Repeat     int       `json:"repeat"`     // the maximum number of faults of each kind; the cells have the actual numbers
	AtOnce     int       `json:"atOnce"`
	TookMs     float64   `json:"tookMs"`

	Interrupted bool  `json:"interrupted,omitempty"` // some rules did not run to their end, or did not run
	Rows        []Row `json:"rows"`
}

// Row is the result of one rule.
type Row struct {
	Rule     string `json:"rule"`
	From     string `json:"from"`
	About    string `json:"about"`
	Weakness string `json:"weakness,omitempty"`
	TimesMs
	Own   TimesMs `json:"own"`   // those that the rule's own project uses
	Fixed bool    `json:"fixed"` // its lease cannot be set
	Alone bool    `json:"alone"` // no other rule ran at the same time

	StatementsPerSecond *float64 `json:"statementsPerSecond"` // of all candidates, while there is no fault; null if not known
	TurnsPerSecond      *float64 `json:"turnsPerSecond"`      // likewise
	Unasked             int      `json:"unasked"`             // leaderships that began while there was no fault
	Deposed             int      `json:"deposed"`             // those that began while another process led, into which no fault was injected
	WonTwice            int      `json:"wonTwice"`            // the same, less than a beat after that one had begun
	Restarts            int      `json:"anew"`                // times all candidates were restarted, because none led alone for long enough
	Cells               []Cell   `json:"cells"`
	TookMs              float64  `json:"tookMs"`
	Failed              string   `json:"failed,omitempty"` // why it did not run to its end

	Exclusive bool `json:"exclusive"` // promises that no two believe at the same time that they lead
	Fences    bool `json:"fences"`    // promises that no stale guarded write takes effect
}

// TimesMs are Times in milliseconds.
type TimesMs struct {
	LeaseMs float64 `json:"leaseMs"`
	BeatMs  float64 `json:"beatMs"`
	CheckMs float64 `json:"checkMs"`
}

// Cell is one fault, repeated.
type Cell struct {
	Fault      Fault     `json:"fault"`
	N          int       `json:"n"`
	Never      int       `json:"never"`        // no other candidate led within the limit
	Leaderless Values    `json:"leaderlessMs"` // of the others, from the fault until another candidate led
	Samples    []float64 `json:"samplesMs"`
	Statements Values    `json:"statementsPerTakeover"` // of the waiting candidates, from the fault until one led
	Turns      Values    `json:"wakeUpsPerTakeover"`    // of their loops
	Overlap    Values    `json:"overlapMs"`             // in which two running processes believed that they lead
	Endless    int       `json:"endless"`               // times the overlap lasted until the old leader was killed
	Writes     uint64    `json:"writes"`
	Stale      uint64    `json:"staleWrites"`    // unguarded, after a newer leader's first write
	Landed     uint64    `json:"guardedLanded"`  // guarded writes that took effect
	Guarded    uint64    `json:"staleGuarded"`   // of these, stale ones
	Refused    uint64    `json:"refusedGuarded"` // guarded writes that were refused
}

// interrupted is Row.Failed of a rule that ran when the run was interrupted.
const interrupted = "interrupted"

// ms returns a duration in milliseconds, rounded to microseconds.
func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond).Microseconds()) / 1000 }

// round rounds to two decimals.
func round(v float64) float64 { return math.Round(v*100) / 100 }

func newRow(r Rule, t Times) Row {
	return Row{
		Rule: r.Name, From: r.From, About: r.About, Weakness: r.Weakness,
		TimesMs: TimesMs{ms(t.Lease), ms(t.Beat), ms(t.Check)}, Own: TimesMs{ms(r.Own.Lease), ms(r.Own.Beat), ms(r.Own.Check)},
		Fixed: r.Fixed, Alone: r.Alone, Exclusive: r.Exclusive, Fences: r.Fences,
		Cells: []Cell{},
	}
}

// sum adds a cell for each fault.
func (r *Row) sum(trials []trial) {
	for _, fault := range Faults() {
		c := Cell{Fault: fault, Samples: []float64{}}
		var statements, turns, overlap []float64
		for _, t := range trials {
			if t.fault != fault {
				continue
			}
			c.N++
			overlap = append(overlap, ms(t.overlap))
			c.Writes, c.Stale = c.Writes+t.writes, c.Stale+t.stale
			c.Landed, c.Guarded, c.Refused = c.Landed+t.landed, c.Guarded+t.fenced, c.Refused+t.refused
			if t.endless {
				c.Endless++
			}
			if !t.followed {
				c.Never++
				continue
			}
			c.Samples = append(c.Samples, ms(t.leaderless))
			if t.costKnown {
				statements, turns = append(statements, float64(t.statements)), append(turns, float64(t.turns))
			}
		}
		c.Leaderless, c.Statements, c.Turns, c.Overlap = valuesOf(c.Samples), valuesOf(statements), valuesOf(turns), valuesOf(overlap)
		r.Cells = append(r.Cells, c)
	}
}

// Broken returns the promises that were not kept and the rules that failed,
// one line for each.
func (r Report) Broken() (broken []string) {
	for _, row := range r.Rows {
		if row.Failed != "" && row.Failed != interrupted {
			broken = append(broken, fmt.Sprintf("did not run to its end: %s: %s", row.Rule, strings.TrimPrefix(row.Failed, row.Rule+": ")))
		}
		if c := row.total(); row.Fences && c.Writes > 0 && c.Landed == 0 {
			broken = append(broken, row.Rule+": no guarded write took effect, so that stale ones were not tested")
		}
		for _, c := range row.Cells {
			if row.promises() && c.Never > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: no other candidate led in %d of %d trials", row.Rule, c.Fault, c.Never, c.N))
			}
			if row.Exclusive && c.Overlap.Max > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: two believed that they lead, for %.3f ms", row.Rule, c.Fault, c.Overlap.Max))
			}
			if row.Fences && c.Guarded > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: %d guarded writes of an old leader took effect", row.Rule, c.Fault, c.Guarded))
			}
		}
	}
	return broken
}

// promises reports whether the rule promises anything.
func (r Row) promises() bool { return r.Fences || r.Exclusive }

// Kept reports whether any promise was tested, and all were kept.
func (r Report) Kept() bool {
	tested := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.promises() && row.total().N > 0 })
	return tested && len(r.Broken()) == 0
}

// total returns the sum of the row's cells.
func (r Row) total() (c Cell) {
	for _, x := range r.Cells {
		c.N, c.Never, c.Endless = c.N+x.N, c.Never+x.Never, c.Endless+x.Endless
		c.Writes, c.Stale = c.Writes+x.Writes, c.Stale+x.Stale
		c.Landed, c.Guarded, c.Refused = c.Landed+x.Landed, c.Guarded+x.Guarded, c.Refused+x.Refused
		c.Overlap.Max = max(c.Overlap.Max, x.Overlap.Max)
	}
	return c
}

// number formats a figure for people, with three digits.
func number(v float64) string {
	switch {
	case v == math.Trunc(v), v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// known formats a figure that may be missing.
func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}

// String returns the time without a leader as min/p50/max.
func (c Cell) String() string {
	v := c.Leaderless
	switch {
	case c.N == 0:
		return "-"
	case v.N == 0:
		return fmt.Sprintf("never (%d of %d)", c.Never, c.N)
	}
	text := number(v.Min) + "/" + number(v.P50) + "/" + number(v.Max)
	if c.Never > 0 {
		text += fmt.Sprintf(" (%d never)", c.Never)
	}
	return text
}

// of returns the row's cell for a fault.
func (r Row) of(f Fault) Cell {
	if i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Fault == f }); i >= 0 {
		return r.Cells[i]
	}
	return Cell{Fault: f}
}

// table is one of the report's tables. The first row has the columns' names.
type table struct {
	Title string
	Rows  [][]string
}

// tables returns the report's tables, which have a row for each rule.
func (r Report) tables() []table {
	takeover := table{"From the fault until another process leads, in ms: min/p50/max",
		[][]string{{"RULE", "LEASE", "N", "KILL -9", "TERM", "PAUSE", "PARTITION"}}}
	cost := table{"Cost, and the effects of two leaders",
		[][]string{{"RULE", "STATEMENTS/S", "PER TAKEOVER", "WAKE-UPS", "OVERLAP MS", "STALE WRITES", "GUARDED", "REFUSED", "UNASKED", "DEPOSED", "WON TWICE"}}}
	for _, row := range r.Rows {
		times := []string{row.Rule, row.lease(), row.counts()}
		for _, fault := range Faults() {
			times = append(times, row.of(fault).String())
		}
		takeover.Rows = append(takeover.Rows, times)
		sum, killed := row.total(), row.of(Kill)
		guarded, refused := "-", "-"
		if row.Fences {
			guarded, refused = fmt.Sprintf("%d of %d", sum.Guarded, sum.Landed), fmt.Sprint(sum.Refused)
		}
		cost.Rows = append(cost.Rows, []string{
			row.Rule, known(row.StatementsPerSecond), killed.Statements.median(), killed.Turns.median(), row.overlap(),
			fmt.Sprintf("%d of %d", sum.Stale, sum.Writes), guarded, refused, fmt.Sprint(row.Unasked), fmt.Sprint(row.Deposed), fmt.Sprint(row.WonTwice),
		})
	}
	return []table{takeover, cost}
}

// Write prints the report for people. Errors of w are ignored.
func (r Report) Write(w io.Writer) {
	fmt.Fprintln(w, strings.Join(r.preface(), "\n"))
	for _, table := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", table.Title)
		t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
		for _, row := range table.Rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush()
	}
	fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	if r.Kept() {
		fmt.Fprintln(w, "All promises were kept.")
	}
	for _, b := range r.Broken() {
		fmt.Fprintln(w, "BROKEN:", b)
	}
}

// preface returns the lines that describe the run.
func (r Report) preface() []string {
	lease := fmt.Sprintf("a lease of %s ms where it can be set, and each rule's own beat and check scaled to it", number(r.LeaseMs))
	if r.Own {
		lease = "each rule's own defaults"
	}
	return []string{
		fmt.Sprintf("conclave %s, %s", r.Version, r.At.Format("2006-01-02 15:04 MST")),
		fmt.Sprintf("Database: %s; ZooKeeper: %s.", r.Database, r.ZooKeeper),
		fmt.Sprintf("%d processes in each election, %s.", r.Candidates, lease),
		fmt.Sprintf("Up to %d elections at once on the same database; a leader writes every %s ms; %s s in total.", r.AtOnce, number(r.ActMs), number(math.Round(r.TookMs/1000))),
	}
}

// notes returns what the columns mean, and which figures are incomplete.
func (r Report) notes() []string {
	list := slices.Clone(columns)
	for _, row := range r.Rows {
		if row.Restarts > 0 {
			list = append(list, fmt.Sprintf("%s: no candidate led alone for long enough to inject a fault; all were restarted, %d times.", row.Rule, row.Restarts))
		}
		if row.Failed == interrupted {
			list = append(list, fmt.Sprintf("%s: interrupted after %d faults.", row.Rule, row.total().N))
		}
	}
	return list
}

// columns explains the columns, below every report.
var columns = []string{
	"N: faults of each kind. LEASE*: cannot be set.",
	"PER TAKEOVER, WAKE-UPS: statements and loop turns of the waiting candidates, from kill -9 until one led; the median. ZooKeeper's pings are not counted.",
	"OVERLAP: the longest time in which two running processes believed that they lead; +: it lasted until the old leader was killed. The time in which a process is stopped does not count.",
	"STALE WRITES: unguarded writes that took effect after a newer leader's first write. GUARDED: the same of the writes that are guarded by the rule's number; REFUSED: guarded writes that were refused; -: the rule guards no writes.",
	"UNASKED: leaderships that began while there was no fault. DEPOSED: those that began, at any time, while another process led into which no fault was injected; WON TWICE: the same, less than a beat after that one had begun.",
}

func (r Row) lease() string {
	text := number(r.LeaseMs)
	if r.Fixed {
		text += "*"
	}
	return text
}

// counts returns the number of faults of each kind, or its range.
func (r Row) counts() string {
	low, high := math.MaxInt, 0
	for _, c := range r.Cells {
		low, high = min(low, c.N), max(high, c.N)
	}
	switch {
	case high == 0:
		return "0"
	case low == high:
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// overlap returns the longest overlap and its fault.
func (r Row) overlap() string {
	if r.total().N == 0 {
		return "-"
	}
	worst := slices.MaxFunc(r.Cells, func(a, b Cell) int { return cmp.Compare(a.Overlap.Max, b.Overlap.Max) })
	if worst.Overlap.Max == 0 {
		return "0"
	}
	plus := ""
	if worst.Endless > 0 {
		plus = "+"
	}
	return fmt.Sprintf("%s%s (%s)", number(worst.Overlap.Max), plus, strings.ToLower(string(worst.Fault)))
}

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("lab").Funcs(template.FuncMap{
	"number": number, "notes": Report.notes, "preface": Report.preface, "tables": Report.tables,
}).Parse(page))

// WriteHTML writes the report as one HTML page without external resources.
func (r Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r) }
