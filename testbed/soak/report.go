package soak

import (
	"fmt"
	"io"
	"time"
)

// Report is the result of a run.
type Report struct {
	Ok         bool            `json:"ok"`
	Seed       uint64          `json:"seed"`
	ForMs      int64           `json:"forMs"`
	TookMs     int64           `json:"tookMs"`
	On         string          `json:"on"`
	Takeover   string          `json:"takeover"`
	Raced      bool            `json:"raced"`
	Error      string          `json:"error,omitempty"` // why the run ended early
	Again      string          `json:"again"`           // the command that plays the same seed
	Pushes     int             `json:"pushes"`
	Acks       int             `json:"acks"`
	Episodes   []EpisodeReport `json:"episodes"`
	Checks     []Check         `json:"checks"`
	Violations []Violation     `json:"violations"`
	Memory     []Growth        `json:"memory"`
	Logs       string          `json:"logs,omitempty"` // the folder that is kept
}

// EpisodeReport is one episode that was played.
type EpisodeReport struct {
	Number int          `json:"number"`
	Name   string       `json:"name"`
	AtMs   int64        `json:"atMs"`
	TookMs int64        `json:"tookMs"`
	Steps  []StepReport `json:"steps"`
}

// StepReport is one step and its outcome.
type StepReport struct {
	AtMs    int64  `json:"atMs"` // the offset in its episode
	Step    string `json:"step"`
	Outcome string `json:"outcome"` // done, refused: ..., failed: ...
}

// Growth is the memory use of one process over time.
type Growth struct {
	Name      string  `json:"name"`
	PID       int     `json:"pid"`
	Seconds   int     `json:"seconds"` // how long it was observed
	FirstMB   float64 `json:"firstMb"`
	LastMB    float64 `json:"lastMb"`
	MostMB    float64 `json:"mostMb"`
	PerMinute float64 `json:"mbPerMinute"` // the slope of a line through all samples after the warm-up
	Warning   bool    `json:"warning,omitempty"`
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
