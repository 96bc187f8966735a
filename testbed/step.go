package testbed

import (
	"fmt"
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

// String returns the action in the words of the language.
func (d Step) String() string {
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
	case Refuse:
		out = fmt.Sprintf("%s %s with %d", d.Verb, d.Of, d.Number)
	case Accept:
		out = fmt.Sprintf("%s %s", d.Verb, d.Of)
	case StartWrong:
		out = fmt.Sprintf("start %s at a wrong address", d.Who)
	case ClosePort, OpenPort:
		out = fmt.Sprintf("%s of %s", d.Verb, d.Who)
	case AnnounceStop:
		out = fmt.Sprintf("announce stop to %s", d.Who)
	case Burst:
		out = fmt.Sprintf("burst by %d", d.Factor)
		if d.Arrivals > 0 {
			out = fmt.Sprintf("burst of %d", d.Arrivals)
		}
	case Freeze, Unfreeze, EndBurst, HealAll:
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
	if d.MustAccept {
		out += " and be accepted"
	}
	if d.For > 0 {
		out += " for " + d.For.String()
	}
	return out
}

// String returns the act in the words of the language.
func (a Action) String() string {
	d := Step{Verb: a.Verb, Who: Selector(a.Node), Whom: Selector(a.Peer), By: a.By, Jitter: a.Jitter, Rate: a.Rate, Point: a.Point, Of: a.Of, Number: a.Number, Factor: a.Factor, Arrivals: a.Arrivals, Force: a.Force, MustRefuse: a.MustRefuse, MustAccept: a.MustAccept}
	if d.Whom == "" && (a.Verb == Cut || a.Verb == CutOne || a.Verb == Mend) {
		d.Whom = "everyone"
	}
	return d.String()
}
