package soak

import (
	"fmt"
	"io"
	"time"

	"conclave/testbed"
	"conclave/testbed/check/blackbox"
)

// Report is the result of a run.
type Report struct {
	Ok         bool                 `json:"ok"`
	Seed       uint64               `json:"seed"`
	ForMs      int64                `json:"forMs"`
	TookMs     int64                `json:"tookMs"`
	On         string               `json:"on"`
	Takeover   string               `json:"takeover"`
	Raced      bool                 `json:"raced"`
	Error      string               `json:"error,omitempty"` // why the run ended early
	Again      string               `json:"again"`           // the command that plays the same seed
	Pushes     int                  `json:"pushes"`
	Acks       int                  `json:"acks"`
	Episodes   []EpisodeReport      `json:"episodes"`
	Checks     []blackbox.Count     `json:"checks"`
	Violations []blackbox.Violation `json:"violations"`
	Memory     []Growth             `json:"memory"`
	Logs       string               `json:"logs,omitempty"` // the folder that is kept
}

// EpisodeReport is one episode that was played.
type EpisodeReport struct {
	Number int      `json:"number"`
	Name   string   `json:"name"`
	AtMs   int64    `json:"atMs"`
	TookMs int64    `json:"tookMs"`
	Steps  []string `json:"steps"` // each with its outcome: done, refused or failed
}

// Growth is the resident memory of the incarnation of a process that was observed for
// the longest time.
type Growth struct {
	Name      string  `json:"name"`
	PID       int     `json:"pid"`
	Seconds   int     `json:"seconds"` // how long it was observed
	FirstMB   float64 `json:"firstMb"`
	LastMB    float64 `json:"lastMb"`
	MostMB    float64 `json:"mostMb"`
	PerMinute float64 `json:"mbPerMinute"` // the slope of a line through what was seen after the warm-up
	Warning   bool    `json:"warning,omitempty"`
	began     time.Time
	sums      struct{ n, x, y, xx, xy float64 } // of minutes and MB after the warm-up
}

// add records the memory at a time.
func (g *Growth) add(p testbed.Process, at time.Time) {
	g.LastMB = float64(p.RSS) / (1 << 20)
	if g.Name == "" {
		g.Name, g.PID, g.FirstMB, g.began = p.Name, p.PID, g.LastMB, at
	}
	seen := at.Sub(g.began)
	g.Seconds, g.MostMB = int(seen.Seconds()), max(g.MostMB, g.LastMB)
	if seen < warmUp {
		return
	}
	s, x := &g.sums, seen.Minutes()
	s.n, s.x, s.y, s.xx, s.xy = s.n+1, s.x+x, s.y+g.LastMB, s.xx+x*x, s.xy+x*g.LastMB
	if d := s.n*s.xx - s.x*s.x; d > 0 && seen >= 2*warmUp { // least squares
		g.PerMinute = (s.n*s.xy - s.x*s.y) / d
		g.Warning = g.PerMinute > slopeBound
	}
}

// finish fills in the counts of the run.
func (r *Report) finish(of *runner) {
	r.Seed, r.ForMs, r.TookMs, r.Raced = of.cfg.Seed, of.cfg.For.Milliseconds(), of.elapsed().Milliseconds(), of.cfg.Raced
	r.Memory = of.processes.growth(of.cfg.Raced)
	r.Checks, r.Violations = of.oracle.Counts(), append([]blackbox.Violation{}, of.oracle.Violations()...)
	r.Pushes, r.Acks = of.oracle.Totals()
	r.Ok = of.oracle.Broken() == 0
	r.Episodes = append([]EpisodeReport{}, r.Episodes...) // [] in JSON if there is none
}

// shownAround is how many violations are printed with the events before them;
// the JSON document has all.
const shownAround = 5

// Write prints the report as text.
func (r *Report) Write(w io.Writer) {
	took := (time.Duration(r.TookMs) * time.Millisecond).Round(time.Second)
	fmt.Fprintf(w, "\n%d episodes in %s, %d pushes checked, %d acknowledgements\n\n", len(r.Episodes), took, r.Pushes, r.Acks)
	fmt.Fprintf(w, "%10s %8s  %s\n", "CHECKS", "BROKEN", "CHECKER")
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%10d %8d  %s\n", c.Checks, c.Broken, c.Name)
	}
	fmt.Fprintf(w, "\n%-12s %8s %8s %8s %8s %12s\n", "MEMORY", "SECONDS", "FIRST MB", "LAST MB", "MOST MB", "MB A MINUTE")
	for _, g := range r.Memory {
		warning := ""
		if g.Warning {
			warning = "  it grows"
		}
		fmt.Fprintf(w, "%-12s %8d %8.0f %8.0f %8.0f %12.2f%s\n", g.Name, g.Seconds, g.FirstMB, g.LastMB, g.MostMB, g.PerMinute, warning)
	}
	for i, v := range r.Violations {
		fmt.Fprintf(w, "\nviolation %d, in episode %d at %.3f s: %s\n  %s\n", i+1, v.Episode, float64(v.AtMs)/1000, v.Check, v.Text)
		if i >= shownAround {
			continue
		}
		for _, line := range v.Around {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
	fmt.Fprintln(w)
}
