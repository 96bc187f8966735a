package testbed

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
)

// Selector says which nodes a step is about; package scenario lists them.
type Selector string

// IsMeta reports whether the selector always stands for meta nodes.
func (s Selector) IsMeta() bool {
	switch s {
	case "leader", "follower", "metas", "a meta", "half of metas":
		return true
	}
	return strings.HasPrefix(string(s), "meta-")
}

// Everyone reports whether the selector names no peer in particular.
func (s Selector) Everyone() bool { return slices.Contains([]Selector{"", "everyone"}, s) }

// Step is an Action whose nodes are given by selectors.
type Step struct {
	Verb      Verb
	Who, Whom Selector
	For       time.Duration // how long it lasts; 0: until another step ends it
	By        time.Duration
	To        time.Time // Skew: what the clock shows, instead of By
	Jitter    time.Duration
	Rate      int
	Point     trace.Kind
	Of        string
	Number    int
	Factor    int  // of Burst: how many times as many changes, or
	Arrivals  int  // of Burst: how many new registrations of each client
	Force     bool // resign, quit, forbid: also if the leader would refuse it as unsafe

	// MustRefuse marks an operator's command that fails the scenario if it is
	// accepted; with AtOnce, if it is accepted for all of Who.
	MustRefuse bool
	MustAccept bool // an operator's command that fails the scenario if it is refused or fails
	AtOnce     bool // an operator's command: sent to all of Who at the same moment
}

// Form is an action in the words of the language. A word in capitals is a part of the
// Step; what stands in brackets may be left out, and be in any order.
type Form struct {
	Verb  Verb
	Words string
	About string
}

// Forms are the actions. Of the forms of one verb a step is written in the first of
// whose parts none is zero, or in the last.
var Forms = []Form{
	{Kill, "kill WHO", ""}, {Stop, "stop WHO", ""},
	{StartWrong, "start WHO at a wrong address", ""}, {Start, "start WHO", ""},
	{Pause, "pause WHO", ""}, {Resume, "resume WHO", ""}, {Twin, "twin WHO", ""},
	{ClosePort, "close port of WHO", ""}, {OpenPort, "open port of WHO", ""},
	{CutOne, "cut one way WHO -> WHOM", ""}, {Cut, "cut WHO from WHOM", "both directions"}, {Mend, "mend WHO from WHOM", ""},
	{Slow, "slow WHO [from WHOM] [by BY] [jitter JITTER] [rate RATE]", "RATE is in bytes a second"},
	{Reset, "reset links of WHO [to WHOM]", ""}, {HalfOpen, "half-open links of WHO [to WHOM]", ""},
	{LoseNext, "lose the next answer of WHOM to WHO", ""},
	{Refuse, "database refuses STATEMENTS with NUMBER", "with MySQL's error of that number"}, {Accept, "database accepts STATEMENTS", ""},
	{Skew, "set clock of WHO to TIME", ""}, {Skew, "skew clock of WHO by BY", "of the database also: step database clock by BY"},
	{HoldOne, "hold one WHO at POINT", "only the next call; later ones overtake it"}, {Hold, "hold WHO at POINT", ""}, {Release, "release WHO at POINT", ""},
	{Resign, "resign WHO", "also with \"by force\", as quit and forbid"}, {Quit, "quit WHO", ""}, {Join, "join WHO", ""},
	{Forbid, "forbid WHO", ""}, {Allow, "allow WHO", ""}, {Freeze, "freeze", "turns the switch arrange off; the expectation frozen is about protection"}, {Unfreeze, "unfreeze", ""}, {Switch, "switch KEY to VALUE", ""},
	{Burst, "burst of ARRIVALS", "clients make so many new registrations each, that no client reads"},
	{Burst, "burst by FACTOR", "clients change values so many times as often"}, {EndBurst, "end burst", ""},
	{Unguard, "take out the guard of writes", "from then on a write does not ask who owns the lock row"},
	{AnnounceStop, "announce stop to WHO", ""}, {HealAll, "heal all", ""},
}

// Part returns where a part of a form is in a step, or nil if the word is none.
func (d *Step) Part(word string) any {
	return map[string]any{
		"WHO": &d.Who, "WHOM": &d.Whom, "KEY": &d.Who, "VALUE": &d.Whom, "BY": &d.By, "JITTER": &d.Jitter, "RATE": &d.Rate, "POINT": &d.Point,
		"STATEMENTS": &d.Of, "NUMBER": &d.Number, "FACTOR": &d.Factor, "ARRIVALS": &d.Arrivals, "TIME": &d.To,
	}[word]
}

// write returns the step in the words of a form, and whether one of its parts is zero.
func (d *Step) write(f Form) (out string, lacks bool) {
	group, left := "", false // what is in the brackets that are open, and whether it is left out
	for _, word := range strings.Fields(f.Words) {
		name := strings.Trim(word, "[]")
		optional := group != "" || name != word
		if at := d.Part(name); at != nil {
			part := reflect.ValueOf(at).Elem()
			left = optional && part.IsZero()
			lacks = lacks || part.IsZero() && !optional
			name = fmt.Sprint(part.Interface())
			if to, is := at.(*time.Time); is {
				name = to.Format(time.RFC3339)
			}
		}
		if group += " " + name; optional && !strings.HasSuffix(word, "]") {
			continue
		}
		if !left {
			out += group
		}
		group, left = "", false
	}
	return out[1:], lacks
}

// String returns the action in the words of the language.
func (d Step) String() string {
	out := string(d.Verb)
	for _, f := range Forms {
		if f.Verb == d.Verb {
			var lacks bool
			if out, lacks = d.write(f); !lacks {
				break
			}
		}
	}
	for _, end := range []struct {
		has  bool
		word string
	}{
		{d.Force, " by force"}, {d.AtOnce, " at once"}, {d.MustRefuse, " and be refused"}, {d.MustAccept, " and be accepted"}, {d.For > 0, " for " + d.For.String()},
	} {
		if end.has {
			out += end.word
		}
	}
	return out
}

// String returns the action in the words of the language.
func (a Action) String() string {
	d := Step{Verb: a.Verb, Who: Selector(a.Node), Whom: Selector(a.Peer), By: a.By, Jitter: a.Jitter, Rate: a.Rate, Point: a.Point, Of: a.Of, Number: a.Number, Factor: a.Factor, Arrivals: a.Arrivals, Force: a.Force, MustRefuse: a.MustRefuse, MustAccept: a.MustAccept}
	if d.Whom == "" && (a.Verb == Cut || a.Verb == CutOne || a.Verb == Mend) {
		d.Whom = "everyone"
	}
	return d.String()
}
