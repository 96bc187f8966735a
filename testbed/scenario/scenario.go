package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// Scenario is a cluster, a load, and the actions and expectations with their
// times. Parse reads one from a file; String writes it back.
type Scenario struct {
	Name    string // of the file, without ".txt"
	About   string // the comment at the top of the file
	Cluster testbed.Size
	Load    Load
	Bubble  bool          // only in the bubble: a machine would need too many processors
	Until   time.Duration // end of the steps; then all faults are healed, and progress is expected
	Scenes  []Scene       // in the order of the file; with scenes, Until is the sum of theirs
	Lines   []Line        // in the order of the file
	Figures []string      // names of figures, in order
}

// Load is what the clients do while the scenario is played.
type Load struct {
	Clients int           // client-1, client-2 ..; each subscribes to every name
	Names   int           // service-1 ..
	Each    int           // so many clients publish under each name; 0: two
	Bytes   int           // values have at least this length
	Every   time.Duration // each client changes one of its values; 0: never
	Replace time.Duration // each client withdraws a registration and publishes a new one; 0: never
	Guests  time.Duration // a client arrives, publishes, and soon withdraws, leaves or is killed; 0: never
	Bulk    int           // each client also has this many registrations that never change and that no client reads; it replays them
	Readers time.Duration // a client arrives, reads every name once, and leaves; 0: never
	Rolling time.Duration // an application is updated: its client leaves with a linger, and another one takes its place; 0: never
	HTTP    int           // every so many-th client of each kind has no SDK and speaks HTTP; 0: none
	Sofa    int           // the first of each kind, and every so many-th after it, is a client of SOFARegistry, unless HTTP counts it; 0: none
	Patient bool          // clients wait for each acknowledgement however long it takes, and readers for their lists; no scenario has it
	Group   string        // a part of the names of dataIds, which differs between two loads on one cluster; no scenario has one
}

// Scene is a part of a scenario. It begins when the one before it has ended: its
// time has passed and each of its expectations is decided.
type Scene struct {
	Title string        // "": it continues the one before it ("then")
	About string        // the comment below its title
	Look  string        // a command of the tool with which a user sees the same; "": none
	Until time.Duration // the least that it takes
}

// Line is one line: a Step or an Expectation, with the time at which it is due,
// once or repeatedly.
type Line struct {
	Number int
	Scene  int // its scene, from 1, whose beginning At counts from; 0: the scenario has none
	At     time.Duration
	Every  time.Duration // 0: once
	To     time.Duration // the last repetition
	Step   *testbed.Step
	Expect *Expectation
}

// Expectation is a condition that must become true in time, or stay true.
type Expectation struct {
	What   string // a key of conditions
	Who    testbed.Selector
	Point  trace.Kind
	Count  int
	Within time.Duration
	For    time.Duration // it must hold for this time, instead of becoming true
}

// String writes the scenario as a file that Parse reads.
func (s Scenario) String() string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(s.About), "\n") {
		if line != "" {
			fmt.Fprintf(&b, "# %s\n", line)
		}
	}
	c := s.Cluster
	b.WriteString("cluster")
	for _, w := range words(&c) {
		fmt.Fprintf(&b, " %d %s", *w.value.(*int), w.name)
	}
	b.WriteString("\n")
	if c.Takeover != "witness" {
		fmt.Fprintf(&b, "takeover %s\n", c.Takeover)
	}
	if c.Lease != testbed.DefaultLease {
		fmt.Fprintf(&b, "lease %s\n", c.Lease)
	}
	for _, role := range testbed.BudgetRoles {
		x := *c.Budgets.Of(role)
		if x == (testbed.Budget{}) {
			continue
		}
		fmt.Fprintf(&b, "budget %s %s a message %s a byte", role, x.Message, x.Byte)
		if x.Queue > 0 {
			fmt.Fprintf(&b, " queue %d", x.Queue)
		}
		b.WriteString("\n")
	}
	if s.Bubble {
		b.WriteString("only in the bubble\n")
	}
	if s.Load.Clients > 0 {
		fmt.Fprintf(&b, "clients %d", s.Load.Clients)
		for _, w := range s.Load.words() {
			if v := reflect.ValueOf(w.value).Elem(); !v.IsZero() {
				fmt.Fprintf(&b, " %s %v", w.name, v)
			}
		}
		b.WriteString("\n")
	}
	for n := range len(s.Scenes) + 1 {
		until := s.Until
		if len(s.Scenes) > 0 && n == 0 {
			continue // no line stands before the first scene
		}
		if n > 0 {
			scene := s.Scenes[n-1]
			if scene.Title == "" {
				b.WriteString("then\n")
			} else {
				fmt.Fprintf(&b, "scene %s\n", scene.Title)
			}
			for line := range strings.Lines(scene.About) {
				fmt.Fprintf(&b, "# %s\n", strings.TrimSpace(line))
			}
			if scene.Look != "" {
				fmt.Fprintf(&b, "look at %s\n", scene.Look)
			}
			until = scene.Until
		}
		for _, step := range s.of(n) {
			b.WriteString(step.String() + "\n")
		}
		if until > 0 {
			fmt.Fprintf(&b, "until %s\n", until)
		}
	}
	for _, f := range s.Figures {
		fmt.Fprintf(&b, "figure %s\n", f)
	}
	return b.String()
}

// String returns the line.
func (s Line) String() string {
	when := fmt.Sprintf("at %s ", s.At)
	if s.Every > 0 {
		when = fmt.Sprintf("every %s from %s to %s ", s.Every, s.At, s.To)
	}
	if s.Expect != nil {
		return when + s.Expect.String()
	}
	return when + s.Step.String()
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

// word is a word of the language for a value, a *int or a *time.Duration.
type word struct {
	name  string
	value any
}

// words are those of a "cluster" line, each after its value.
func words(c *testbed.Size) []word {
	return []word{{"meta", &c.Metas}, {"session", &c.Sessions}, {"data", &c.Datas}, {"slots", &c.Slots}, {"replicas", &c.Replicas}}
}

// words are those of a "clients" line, each before its value.
func (l *Load) words() []word {
	return []word{
		{"names", &l.Names}, {"publishers", &l.Each}, {"bytes", &l.Bytes}, {"every", &l.Every}, {"replace", &l.Replace},
		{"guests", &l.Guests}, {"readers", &l.Readers}, {"rolling", &l.Rolling}, {"bulk", &l.Bulk}, {"http", &l.HTTP}, {"sofa", &l.Sofa},
	}
}

// withDefaults fills in what the file leaves out.
func (s Scenario) withDefaults() Scenario {
	s.Cluster = s.Cluster.WithDefaults()
	if s.Until == 0 && len(s.Scenes) == 0 {
		s.Until = last(s.Lines) + time.Second
	}
	if len(s.Scenes) > 0 {
		s.Until, s.Scenes = 0, slices.Clone(s.Scenes)
		for i := range s.Scenes {
			if until := &s.Scenes[i].Until; *until == 0 {
				*until = last(s.of(i + 1))
			}
			s.Until += s.Scenes[i].Until
		}
	}
	return s
}

// of returns the lines of a scene, or those of a scenario without scenes (0).
func (s Scenario) of(scene int) (out []Line) {
	for _, l := range s.Lines {
		if l.Scene == scene {
			out = append(out, l)
		}
	}
	return out
}

// last returns when the last of the lines ends.
func last(lines []Line) (end time.Duration) {
	for _, l := range lines {
		end = max(end, l.At, l.To)
		if l.Step != nil {
			end = max(end, l.At+l.Step.For)
		}
	}
	return end
}

// Needs lists the verbs that a cluster must support, sorted and without
// duplicates.
func (s Scenario) Needs() []testbed.Verb {
	seen := map[testbed.Verb]bool{}
	for _, step := range s.Lines {
		if step.Step != nil && step.Step.Verb != testbed.HealAll {
			seen[step.Step.Verb] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
