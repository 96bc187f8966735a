package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
	"conclave/testbed"
)

// action reads an action.
func (p *parser) action() (*testbed.Step, error) {
	d := &testbed.Step{}
	var err error
	who := func() { d.Who, err = p.selector() }
	whom := func() {
		if err == nil {
			d.Whom, err = p.selector()
		}
	}
	word := func(words ...string) {
		if err == nil {
			err = p.want(words...)
		}
	}
	switch w := p.next(); w {
	case "kill", "stop", "start", "pause", "resume", "twin", "resign", "quit", "join", "forbid", "allow":
		d.Verb = testbed.Verb(w)
		who()
		switch d.Verb {
		case testbed.Resign, testbed.Quit, testbed.Forbid:
			d.Force = err == nil && p.accept("by", "force")
		case testbed.Start:
			if p.accept("at", "a", "wrong", "address") {
				d.Verb = testbed.StartWrong
			}
		}
	case "close", "open":
		d.Verb = testbed.Verb(w + " port")
		word("port", "of")
		if err == nil {
			who()
		}
	case "database":
		err = p.refusal(d)
	case "announce":
		d.Verb = testbed.AnnounceStop
		word("stop", "to")
		if err == nil {
			who()
		}
	case "freeze", "unfreeze":
		d.Verb = testbed.Verb(w)
	case "burst":
		err = p.burst(d)
	case "end":
		d.Verb = testbed.EndBurst
		word("burst")
	case "switch":
		d.Verb, d.Who = testbed.Switch, testbed.Selector(p.next())
		word("to")
		d.Whom = testbed.Selector(p.next())
		if _, known := testbed.SwitchDefaults[string(d.Who)]; err == nil && !known {
			err = fmt.Errorf("unknown switch %q (want one of %s)", d.Who, strings.Join(slices.Sorted(maps.Keys(testbed.SwitchDefaults)), ", "))
		}
	case "heal":
		d.Verb = testbed.HealAll
		word("all")
	case "cut":
		d.Verb = testbed.Cut
		if p.accept("one", "way") {
			d.Verb = testbed.CutOne
			who()
			word("->")
			whom()
			break
		}
		who()
		word("from")
		whom()
	case "mend":
		d.Verb = testbed.Mend
		who()
		word("from")
		whom()
	case "slow":
		d.Verb = testbed.Slow
		who()
		if p.accept("from") {
			whom()
		}
		err = p.slowness(d, err)
	case "reset", "half-open":
		d.Verb = testbed.Verb(w)
		word("links", "of")
		if err == nil {
			who()
		}
		if p.accept("to") {
			whom()
		}
	case "lose":
		d.Verb = testbed.LoseNext
		word("the", "next", "answer", "of")
		if whom(); err == nil {
			word("to")
		}
		if err == nil {
			who()
		}
	case "skew", "step", "set":
		err = p.clock(d, w)
	case "hold", "release":
		d.Verb = testbed.Verb(w)
		if w == "hold" && p.accept("one") {
			d.Verb = testbed.HoldOne
		}
		who()
		word("at")
		if err == nil {
			d.Point, err = p.point()
		}
	default:
		return nil, fmt.Errorf("unknown action %q", w)
	}
	if err != nil {
		return nil, err
	}
	if d.Verb.IsCommand() {
		d.AtOnce = p.accept("at", "once")
		d.MustRefuse = p.accept("and", "be", "refused")
		d.MustAccept = !d.MustRefuse && p.accept("and", "be", "accepted")
	}
	if p.accept("for") {
		if d.For, err = p.duration(); err == nil && d.Verb.Undo() == "" {
			err = fmt.Errorf("%s does not last: want no \"for\"", d.Verb)
		}
	}
	return d, err
}

// refusal reads "refuses KIND with NUMBER" or "accepts KIND".
func (p *parser) refusal(d *testbed.Step) (err error) {
	d.Verb, d.Who = testbed.Accept, testbed.Database
	refuses := p.accept("refuses")
	if !refuses {
		if err = p.want("accepts"); err != nil {
			return err
		}
	}
	if d.Of = p.next(); !slices.Contains(testbed.Statements, d.Of) {
		return fmt.Errorf("unknown statements %q (want one of %s)", d.Of, strings.Join(testbed.Statements, ", "))
	}
	if !refuses {
		return nil
	}
	d.Verb = testbed.Refuse
	if err = p.want("with"); err != nil {
		return err
	}
	if d.Number, err = p.number(); err == nil && (d.Number < 1 || d.Number > 65535) {
		err = fmt.Errorf("error %d: want 1 to 65535", d.Number)
	}
	return err
}

// burst reads "by N" or "of N".
func (p *parser) burst(d *testbed.Step) (err error) {
	d.Verb = testbed.Burst
	word, number, most := "by", &d.Factor, 1000
	if p.accept("of") {
		word, number, most = "of", &d.Arrivals, 10_000
	} else if err = p.want("by"); err != nil {
		return err
	}
	if *number, err = p.number(); err == nil && (*number < 1 || *number > most) {
		err = fmt.Errorf("burst %s %d: want 1 to %d", word, *number, most)
	}
	return err
}

// slowness reads "by D", "jitter D" and "rate BYTES", in any order.
func (p *parser) slowness(d *testbed.Step, err error) error {
	for more := true; err == nil && more; {
		switch {
		case p.accept("by"):
			d.By, err = p.duration()
		case p.accept("jitter"):
			d.Jitter, err = p.duration()
		case p.accept("rate"):
			d.Rate, err = p.number()
		default:
			more = false
		}
	}
	if err == nil && d.By == 0 && d.Rate == 0 {
		return fmt.Errorf("slow %s: want by DURATION or rate BYTES", d.Who)
	}
	return err
}

// clock reads "skew clock of X by D", "step database clock by D" and "set clock
// of X to TIME".
func (p *parser) clock(d *testbed.Step, verb string) (err error) {
	d.Verb = testbed.Skew
	switch {
	case p.accept("database", "clock"):
		d.Who = testbed.Database
	default:
		if err = p.want("clock", "of"); err != nil {
			return err
		}
		if d.Who, err = p.selector(); err != nil {
			return err
		}
	}
	if verb == "set" {
		if err = p.want("to"); err != nil {
			return err
		}
		w := p.next()
		if d.To, err = time.Parse(time.RFC3339, w); err != nil {
			return fmt.Errorf("invalid time %q (want for example 2038-01-19T03:14:00Z)", w)
		}
		return nil
	}
	if err = p.want("by"); err != nil {
		return err
	}
	d.By, err = p.duration()
	return err
}

func (p *parser) point() (trace.Kind, error) {
	w := trace.Kind(p.next())
	if !slices.Contains(trace.Points(), w) {
		return "", fmt.Errorf("unknown point %q (want one of %v)", w, trace.Points())
	}
	return w, nil
}
