package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run has found.
type Report struct {
	At         time.Time `json:"at"`
	Version    string    `json:"version"`
	Database   string    `json:"database"`
	ZooKeeper  string    `json:"zookeeper"`
	Candidates int       `json:"candidates"` // in each election
	LeaseMs    float64   `json:"leaseMs"`    // of all rules that can be told
	Own        bool      `json:"own"`        // each rule had its own defaults instead
	ActMs      float64   `json:"actMs"`      // between two writes of who believes
	Repeat     int       `json:"repeat"`     // asked for; what came of it is in the cells
	AtOnce     int       `json:"atOnce"`
	TookMs     float64   `json:"tookMs"`

	Interrupted bool  `json:"interrupted,omitempty"` // some rules were not played to their end, or not at all
	Rows        []Row `json:"rows"`
}

// Row is one rule.
type Row struct {
	Rule     string   `json:"rule"`
	From     string   `json:"from"`
	About    string   `json:"about"`
	Weakness string   `json:"weakness,omitempty"`
	LeaseMs  float64  `json:"leaseMs"`
	BeatMs   float64  `json:"beatMs"`
	CheckMs  float64  `json:"checkMs"`
	Own      Defaults `json:"own"`
	Fixed    bool     `json:"fixed"` // it cannot be told another lease
	Alone    bool     `json:"alone"` // it had the database to itself

	StatementsPerSecond *float64 `json:"statementsPerSecond"` // all candidates, while nothing happens; null: not known
	TurnsPerSecond      *float64 `json:"turnsPerSecond"`      // likewise
	Unasked             int      `json:"unasked"`             // leaderships that began without a fault
	Anew                int      `json:"anew"`                // times nobody led alone for long, and all candidates began anew
	Cells               []Cell   `json:"cells"`
	TookMs              float64  `json:"tookMs"`
	Failed              string   `json:"failed,omitempty"` // why it could not be played to its end

	Exclusive bool `json:"exclusive"` // promises that no two believe
	Fences    bool `json:"fences"`    // promises that guarded writes are never stale
}

// Defaults are what a rule's own project uses.
type Defaults struct {
	LeaseMs float64 `json:"leaseMs"`
	BeatMs  float64 `json:"beatMs"`
	CheckMs float64 `json:"checkMs"`
}

// Cell is one fault, repeated.
type Cell struct {
	Fault      Fault     `json:"fault"`
	N          int       `json:"n"`
	Never      int       `json:"never"`        // nobody else led until the limit
	Leaderless Values    `json:"leaderlessMs"` // of those in which somebody did
	Samples    []float64 `json:"samplesMs"`
	Statements Values    `json:"statementsPerTakeover"` // of who waited, from the fault until somebody led
	Turns      Values    `json:"wakeUpsPerTakeover"`    // of their loops
	Overlap    Values    `json:"overlapMs"`             // for which two that ran believed
	Endless    int       `json:"endless"`               // times the old leader had to be killed for it
	Writes     uint64    `json:"writes"`
	Stale      uint64    `json:"staleWrites"`    // unguarded, after a newer leader's first
	Landed     uint64    `json:"guardedLanded"`  // of the guarded ones
	Guarded    uint64    `json:"staleGuarded"`   // of these after a newer leader's
	Refused    uint64    `json:"refusedGuarded"` // by the guard
	Unheard    int       `json:"unheard"`        // answers of candidates that are missing in what was guarded
}

// interrupted is why a rule was not played to its end when the run was.
const interrupted = "interrupted"

// ms is a duration in milliseconds, to a microsecond.
func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond).Microseconds()) / 1000 }

// round keeps two digits after the point.
func round(v float64) float64 { return math.Round(v*100) / 100 }

func newRow(r Rule, t Times) Row {
	return Row{
		Rule: r.Name, From: r.From, About: r.About, Weakness: r.Weakness,
		LeaseMs: ms(t.Lease), BeatMs: ms(t.Beat), CheckMs: ms(t.Check),
		Own:   Defaults{ms(r.Own.Lease), ms(r.Own.Beat), ms(r.Own.Check)},
		Fixed: r.Fixed, Alone: r.Alone, Exclusive: r.Exclusive, Fences: r.Fences,
		Cells: []Cell{},
	}
}

// sum fills the cells.
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
			c.Landed, c.Guarded, c.Refused, c.Unheard = c.Landed+t.landed, c.Guarded+t.fenced, c.Refused+t.refused, c.Unheard+t.unheard
			if t.endless {
				c.Endless++
			}
			if !t.followed {
				c.Never++
				continue
			}
			c.Samples = append(c.Samples, ms(t.leaderless))
			if t.costs {
				statements, turns = append(statements, float64(t.statements)), append(turns, float64(t.turns))
			}
		}
		c.Leaderless, c.Statements, c.Turns, c.Overlap = valuesOf(c.Samples), valuesOf(statements), valuesOf(turns), valuesOf(overlap)
		r.Cells = append(r.Cells, c)
	}
}

// Broken lists the promises that were not kept, and the rules that could not be played
// to their end.
func (r Report) Broken() (broken []string) {
	for _, row := range r.Rows {
		if row.Failed != "" && row.Failed != interrupted {
			broken = append(broken, fmt.Sprintf("not played to its end: %s: %s", row.Rule, strings.TrimPrefix(row.Failed, row.Rule+": ")))
		}
		if c := row.total(); row.Fences && c.Writes > 0 && c.Landed == 0 {
			broken = append(broken, row.Rule+": no guarded write landed: nothing was shown")
		}
		for _, c := range row.Cells {
			if row.promises() && c.Never > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: %d of %d times nobody followed", row.Rule, c.Fault, c.Never, c.N))
			}
			if row.Exclusive && c.Overlap.Max > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: two believed to lead for %.3f ms", row.Rule, c.Fault, c.Overlap.Max))
			}
			if row.Fences && c.Guarded > 0 {
				broken = append(broken, fmt.Sprintf("%s, %s: %d guarded writes of an old leader landed", row.Rule, c.Fault, c.Guarded))
			}
		}
	}
	return broken
}

// promises says whether anything is held against the rule.
func (r Row) promises() bool { return r.Fences || r.Exclusive }

// Kept says that something was promised, and that it was tried and kept.
func (r Report) Kept() bool {
	tried := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.promises() && row.total().N > 0 })
	return tried && len(r.Broken()) == 0
}

// total sums a row's cells up.
func (r Row) total() (c Cell) {
	for _, x := range r.Cells {
		c.N, c.Never, c.Endless = c.N+x.N, c.Never+x.Never, c.Endless+x.Endless
		c.Writes, c.Stale = c.Writes+x.Writes, c.Stale+x.Stale
		c.Landed, c.Guarded, c.Refused, c.Unheard = c.Landed+x.Landed, c.Guarded+x.Guarded, c.Refused+x.Refused, c.Unheard+x.Unheard
		c.Overlap.Max = max(c.Overlap.Max, x.Overlap.Max)
	}
	return c
}

// WriteJSON writes the report as one document.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// number is a figure for people: three digits are enough.
func number(v float64) string {
	switch {
	case v == math.Trunc(v), v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// known is a figure that may not be.
func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}

// cell is how long nobody led: min/p50/max, with p99 where there are enough samples.
func (c Cell) String() string {
	v := c.Leaderless
	var text string
	switch {
	case c.N == 0:
		return "-"
	case v.N == 0:
		return fmt.Sprintf("never (%d of %d)", c.Never, c.N)
	case v.P99 != nil:
		text = fmt.Sprintf("%s/%s/%s/%s", number(v.Min), number(v.P50), number(*v.P99), number(v.Max))
	default:
		text = fmt.Sprintf("%s/%s/%s", number(v.Min), number(v.P50), number(v.Max))
	}
	if c.Never > 0 {
		text += fmt.Sprintf(" (%d never)", c.Never)
	}
	return text
}

// of is a row's cell of a fault.
func (r Row) of(f Fault) Cell {
	if i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Fault == f }); i >= 0 {
		return r.Cells[i]
	}
	return Cell{Fault: f}
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	for _, line := range r.preface() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\nFrom the fault until another process leads, in ms: min/p50/max (with 100 samples or more min/p50/p99/max)\n")
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RULE\tLEASE\tN\tKILL -9\tTERM\tPAUSE\tPARTITION")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Rule, row.lease(), row.counts(), row.of(Kill), row.of(Term), row.of(Pause), row.of(Partition))
	}
	_ = t.Flush() // what w did not take, nobody reads
	fmt.Fprintf(w, "\nWhat it costs, and what two leaders did\n")
	t = tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RULE\tSTATEMENTS/S\tPER TAKEOVER\tWAKE-UPS\tOVERLAP MS\tSTALE WRITES\tGUARDED\tREFUSED\tUNASKED")
	for _, row := range r.Rows {
		c := row.total()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\t%d\n", row.Rule, known(row.StatementsPerSecond),
			row.of(Kill).median(row.of(Kill).Statements), row.of(Kill).median(row.of(Kill).Turns), row.overlap(),
			c.Stale, c.Writes, row.landed(), row.guarded(c.Refused), row.Unasked)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	for _, line := range r.notes() {
		fmt.Fprintln(w, line)
	}
	if r.Kept() {
		fmt.Fprintln(w, "What was promised was kept.")
	}
	for _, b := range r.Broken() {
		fmt.Fprintln(w, "BROKEN:", b)
	}
}

// preface says what was done, and where.
func (r Report) preface() []string {
	lease := fmt.Sprintf("a lease of %s ms for all that can be told one, and each rule's own proportions to it", number(r.LeaseMs))
	if r.Own {
		lease = "each rule's own defaults"
	}
	return []string{
		fmt.Sprintf("conclave %s, %s", r.Version, r.At.Format("2006-01-02 15:04 MST")),
		fmt.Sprintf("Database: %s; ZooKeeper: %s.", r.Database, r.ZooKeeper),
		fmt.Sprintf("%d processes in each election, %s.", r.Candidates, lease),
		fmt.Sprintf("Up to %d elections at once on the same database, a write each %s ms by who believes; %s s in all.", r.AtOnce, number(r.ActMs), number(math.Round(r.TookMs/1000))),
	}
}

// notes say what the columns mean, and what is missing in them.
func (r Report) notes() []string {
	list := slices.Clone(columns)
	for _, row := range r.Rows {
		if n := row.total().Unheard; n > 0 {
			list = append(list, fmt.Sprintf("%s: %d answers of candidates did not come in time; what these have counted of guarded writes is missing.", row.Rule, n))
		}
	}
	for _, row := range r.Rows {
		if row.Anew > 0 {
			list = append(list, fmt.Sprintf("%s: %d times nobody led alone for long enough to be broken, and all its candidates began anew.", row.Rule, row.Anew))
		}
		if row.Failed == interrupted {
			list = append(list, fmt.Sprintf("%s: interrupted after %d faults.", row.Rule, row.total().N))
		}
	}
	return list
}

// columns say what they mean; they stand below every report.
var columns = []string{
	"N: faults of each kind. LEASE*: fixed, it cannot be told another. Below 100 samples no p99 is given: it would be the maximum.",
	"PER TAKEOVER, WAKE-UPS: statements and turns of the loops of who waited, from kill -9 until somebody led; the median. ZooKeeper's pings are not counted.",
	"OVERLAP: the longest for which two processes that ran believed to lead; +: until the old one was killed for it. A stopped process does not count while it is stopped.",
	"STALE WRITES: landed after a newer leader's first write. GUARDED: the same of those writes under the rule's number that landed; REFUSED: those that did not; -: it has none, or guards nothing with it.",
	"UNASKED: leaderships that began while no fault was under way.",
}

func (r Row) lease() string {
	text := number(r.LeaseMs)
	if r.Fixed {
		text += "*"
	}
	return text
}

// counts is n, of all cells if they are the same.
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

func (c Cell) median(v Values) string {
	if v.N == 0 {
		return "-"
	}
	return number(v.P50)
}

// overlap is the longest, and where.
func (r Row) overlap() string {
	var worst Cell
	for _, c := range r.Cells {
		if c.Overlap.Max > worst.Overlap.Max {
			worst = c
		}
	}
	if worst.Overlap.Max == 0 {
		return "0"
	}
	plus := ""
	if worst.Endless > 0 {
		plus = "+"
	}
	return fmt.Sprintf("%s%s (%s)", number(worst.Overlap.Max), plus, strings.ToLower(string(worst.Fault)))
}

// landed is how many guarded writes were stale, and of how many, of rules that guard.
func (r Row) landed() string {
	if !r.Fences {
		return "-"
	}
	c := r.total()
	return fmt.Sprintf("%d of %d", c.Guarded, c.Landed)
}

// guarded is a count, of rules that guard.
func (r Row) guarded(n uint64) string {
	if !r.Fences {
		return "-"
	}
	return fmt.Sprint(n)
}
