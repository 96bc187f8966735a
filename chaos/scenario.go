package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
)

// Scenario is a cluster, a load, and the actions and expectations with their
// times. Parse reads one from a file; String writes it back.
type Scenario struct {
	Name    string // of the file, without ".txt"
	About   string // the comment at the top of the file
	Cluster Cluster
	Load    Load
	Bubble  bool          // only in the bubble: a machine would need too many processors
	Until   time.Duration // end of the steps; then all faults are healed, and progress is expected
	Steps   []Step        // in the order of the file
	Figures []string      // names of figures, in order
}

// Load is what the clients do while the scenario is played.
type Load struct {
	Clients int           // client-1, client-2 ..; each subscribes to every name
	Names   int           // service-1 ..; two clients publish under each of them
	Every   time.Duration // each client changes one of its values; 0: never
	Replace time.Duration // each client withdraws a registration and publishes a new one; 0: never
	Guests  time.Duration // a client arrives, publishes, and soon withdraws, leaves or is killed; 0: never
	Readers time.Duration // a client arrives, reads every name once, and leaves; 0: never
}

// Step is one line: a Deed or an Expectation, with the time at which it is due,
// once or repeatedly.
type Step struct {
	Line   int
	At     time.Duration
	Every  time.Duration // 0: once
	To     time.Duration // the last repetition
	Deed   *Deed
	Expect *Expectation
}

// Deed is an Act whose nodes are given by selectors.
type Deed struct {
	Verb      Verb
	Who, Whom Selector
	For       time.Duration // how long it lasts; 0: until another step ends it
	By        time.Duration
	To        time.Time // Skew: what the clock shows, instead of By
	Jitter    time.Duration
	Rate      int
	Point     trace.Kind
	Force     bool // resign, quit, forbid: also if the leader would refuse it as unsafe

	// MustRefuse marks an operator's command that fails the scenario if it is
	// accepted; with AtOnce, if it is accepted for all of Who.
	MustRefuse bool
	AtOnce     bool // an operator's command: sent to all of Who at the same moment
}

// HealAll ends every fault: it mends links, resumes and releases nodes, sets
// the clocks right, and starts dead nodes.
const HealAll Verb = "heal all"

// Expectation is a condition that must become true in time, or stay true.
type Expectation struct {
	What   string // a key of conditions
	Who    Selector
	Point  trace.Kind
	Count  int
	Within time.Duration
	For    time.Duration // it must hold for this time, instead of becoming true
}

// Selector says which nodes a line is about; see select.go.
type Selector string

// String writes the scenario as a file that Parse reads.
func (s Scenario) String() string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(s.About), "\n") {
		if line != "" {
			fmt.Fprintf(&b, "# %s\n", line)
		}
	}
	c := s.Cluster
	fmt.Fprintf(&b, "cluster %d meta %d session %d data %d slots %d replicas\n", c.Metas, c.Sessions, c.Datas, c.Slots, c.Replicas)
	if c.Takeover != "witness" {
		fmt.Fprintf(&b, "takeover %s\n", c.Takeover)
	}
	if c.Lease != defaultLease {
		fmt.Fprintf(&b, "lease %s\n", c.Lease)
	}
	if s.Bubble {
		b.WriteString("only in the bubble\n")
	}
	if s.Load.Clients > 0 {
		fmt.Fprintf(&b, "clients %d names %d", s.Load.Clients, s.Load.Names)
		if s.Load.Every > 0 {
			fmt.Fprintf(&b, " every %s", s.Load.Every)
		}
		if s.Load.Replace > 0 {
			fmt.Fprintf(&b, " replace %s", s.Load.Replace)
		}
		if s.Load.Guests > 0 {
			fmt.Fprintf(&b, " guests %s", s.Load.Guests)
		}
		if s.Load.Readers > 0 {
			fmt.Fprintf(&b, " readers %s", s.Load.Readers)
		}
		b.WriteString("\n")
	}
	for _, step := range s.Steps {
		b.WriteString(step.String() + "\n")
	}
	if s.Until > 0 {
		fmt.Fprintf(&b, "until %s\n", s.Until)
	}
	for _, f := range s.Figures {
		fmt.Fprintf(&b, "figure %s\n", f)
	}
	return b.String()
}

// String returns the line.
func (s Step) String() string {
	when := fmt.Sprintf("at %s ", s.At)
	if s.Every > 0 {
		when = fmt.Sprintf("every %s from %s to %s ", s.Every, s.At, s.To)
	}
	if s.Expect != nil {
		return when + s.Expect.String()
	}
	return when + s.Deed.String()
}

// String returns the action in the words of the language.
func (d Deed) String() string {
	out := ""
	switch d.Verb {
	case Cut:
		out = fmt.Sprintf("cut %s from %s", d.Who, d.Whom)
	case CutOne:
		out = fmt.Sprintf("cut one way %s -> %s", d.Who, d.Whom)
	case Mend:
		out = fmt.Sprintf("mend %s from %s", d.Who, d.Whom)
	case Slow:
		out = "slow " + string(d.Who)
		if d.Whom != "" {
			out += " from " + string(d.Whom)
		}
		if d.By > 0 {
			out += " by " + d.By.String()
		}
		if d.Jitter > 0 {
			out += " jitter " + d.Jitter.String()
		}
		if d.Rate > 0 {
			out += fmt.Sprintf(" rate %d", d.Rate)
		}
	case Reset, HalfOpen:
		out = fmt.Sprintf("%s links of %s", d.Verb, d.Who)
		if d.Whom != "" {
			out += " to " + string(d.Whom)
		}
	case LoseNext:
		out = fmt.Sprintf("lose the next answer of %s to %s", d.Whom, d.Who)
	case Skew:
		if !d.To.IsZero() {
			out = fmt.Sprintf("set clock of %s to %s", d.Who, d.To.Format(time.RFC3339))
			break
		}
		out = fmt.Sprintf("skew clock of %s by %s", d.Who, d.By)
	case Hold, HoldOne, Release:
		out = fmt.Sprintf("%s %s at %s", d.Verb, d.Who, d.Point)
	case StartWrong:
		out = fmt.Sprintf("start %s at a wrong address", d.Who)
	case ClosePort, OpenPort:
		out = fmt.Sprintf("%s of %s", d.Verb, d.Who)
	case AnnounceStop:
		out = fmt.Sprintf("announce stop to %s", d.Who)
	case Freeze, Unfreeze, HealAll:
		out = string(d.Verb)
	case Switch:
		out = fmt.Sprintf("switch %s to %s", d.Who, d.Whom)
	default:
		out = fmt.Sprintf("%s %s", d.Verb, d.Who)
	}
	if d.Force {
		out += " by force"
	}
	if d.AtOnce {
		out += " at once"
	}
	if d.MustRefuse {
		out += " and be refused"
	}
	if d.For > 0 {
		out += " for " + d.For.String()
	}
	return out
}

// String returns the expectation in the words of the language.
func (e Expectation) String() string {
	out := "expect " + e.What
	if e.Who != "" {
		out += " " + string(e.Who)
	}
	if e.Point != "" {
		out += " at " + string(e.Point)
	}
	if e.Count > 0 {
		out += fmt.Sprintf(" %d", e.Count)
	}
	if e.For > 0 {
		return out + " for " + e.For.String()
	}
	return out + " within " + e.Within.String()
}

const defaultLease = 3 * time.Second

// withDefaults fills in what the file leaves out.
func (s Scenario) withDefaults() Scenario {
	or := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	or(&s.Cluster.Metas, 3)
	or(&s.Cluster.Sessions, 2)
	or(&s.Cluster.Datas, 3)
	or(&s.Cluster.Slots, 16)
	or(&s.Cluster.Replicas, 2)
	if s.Cluster.Takeover == "" {
		s.Cluster.Takeover = "witness"
	}
	if s.Cluster.Lease == 0 {
		s.Cluster.Lease = defaultLease
	}
	if s.Until == 0 {
		for _, step := range s.Steps {
			s.Until = max(s.Until, step.At, step.To)
			if step.Deed != nil {
				s.Until = max(s.Until, step.At+step.Deed.For)
			}
		}
		s.Until += time.Second
	}
	return s
}

// Needs lists the verbs that a driver must support, sorted and without
// duplicates.
func (s Scenario) Needs() []Verb {
	seen := map[Verb]bool{}
	for _, step := range s.Steps {
		if step.Deed != nil && step.Deed.Verb != HealAll {
			seen[step.Deed.Verb] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
