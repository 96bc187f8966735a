package electorhttp

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"conclave/elector"
)

// family is one metric of all elections.
type family struct {
	name, kind, help string
	value            func(*elector.Elector) float64
}

// families are the metrics besides the state. A counter's samples end in _total.
var families = []family{
	{"elector_leading", "gauge", "Whether this node leads and may act (1) or not (0).", func(e *elector.Elector) float64 {
		if _, leading := e.Leading(); leading {
			return 1
		}
		return 0
	}},
	{"elector_term", "gauge", "The highest term that this node has seen.", func(e *elector.Elector) float64 { return float64(e.Highest()) }},
	{"elector_lease_remaining_seconds", "gauge", "How long the known leader's lease, or this leader's trust, lasts without a renewal; 0 without a leader.",
		func(e *elector.Elector) float64 { return max(0, e.Remaining().Seconds()) }},
	{"elector_unanswered_rounds", "gauge", "Rounds in a row without an answer from the database.", func(e *elector.Elector) float64 { return float64(e.Status().Failures) }},
	count("elector_rounds", "Rounds played.", func(s elector.Stats) uint64 { return s.Rounds }),
	count("elector_rounds_failed", "Rounds without an answer from the database.", func(s elector.Stats) uint64 { return s.Failed }),
	count("elector_terms_won", "Terms that this node has led.", func(s elector.Stats) uint64 { return s.Won }),
	count("elector_terms_ended", "Terms that this node does not lead any more.", func(s elector.Stats) uint64 { return s.Ended }),
	count("elector_lead_failures", "Calls of Lead that failed.", func(s elector.Stats) uint64 { return s.LeadFailed }),
}

func count(name, help string, value func(elector.Stats) uint64) family {
	return family{name, "counter", help, func(e *elector.Elector) float64 { return float64(value(e.Stats())) }}
}

// escaped replaces what a label's value may not contain.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// WriteMetrics writes the figures of all elections of a process in the text format of
// OpenMetrics 1.0, which Prometheus reads. A key is the value of the label election; an
// empty one has no label. It returns an error of w.
func WriteMetrics(w io.Writer, elections map[string]*elector.Elector) error {
	var text bytes.Buffer
	names := slices.Sorted(maps.Keys(elections))
	sample := func(metric, election, state string, value float64) {
		var labels []string
		if election != "" {
			labels = append(labels, `election="`+escaped.Replace(election)+`"`)
		}
		if state != "" {
			labels = append(labels, `state="`+state+`"`)
		}
		if len(labels) > 0 {
			metric += "{" + strings.Join(labels, ",") + "}"
		}
		fmt.Fprintf(&text, "%s %g\n", metric, value)
	}
	for _, f := range families {
		fmt.Fprintf(&text, "# TYPE %s %s\n", f.name, f.kind)
		if strings.HasSuffix(f.name, "_seconds") {
			fmt.Fprintf(&text, "# UNIT %s seconds\n", f.name)
		}
		fmt.Fprintf(&text, "# HELP %s %s\n", f.name, f.help)
		for _, name := range names {
			metric := f.name
			if f.kind == "counter" {
				metric += "_total"
			}
			sample(metric, name, "", f.value(elections[name]))
		}
	}
	text.WriteString("# TYPE elector_state gauge\n# HELP elector_state What this node does in the election: 1 for one of the states.\n")
	for _, name := range names {
		now := elections[name].Status().State
		for state := elector.Observing; state <= elector.WindingDown; state++ {
			value := 0.0
			if state == now {
				value = 1
			}
			sample("elector_state", name, state.String(), value)
		}
	}
	text.WriteString("# EOF\n")
	_, err := w.Write(text.Bytes())
	return err
}
