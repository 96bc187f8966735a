package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"conclave/internal/trace"
)

// action reads an action.
func (p *parser) action() (*Deed, error) {
	d := &Deed{}
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
		d.Verb = Verb(w)
		who()
		switch d.Verb {
		case Resign, Quit, Forbid:
			d.Force = err == nil && p.accept("by", "force")
		case Start:
			if p.accept("at", "a", "wrong", "address") {
				d.Verb = StartWrong
			}
		}
	case "close", "open":
		d.Verb = Verb(w + " port")
		word("port", "of")
		if err == nil {
			who()
		}
	case "announce":
		d.Verb = AnnounceStop
		word("stop", "to")
		if err == nil {
			who()
		}
	case "freeze", "unfreeze":
		d.Verb = Verb(w)
	case "switch":
		d.Verb, d.Who = Switch, Selector(p.next())
		word("to")
		d.Whom = Selector(p.next())
		if _, known := switchDefaults[string(d.Who)]; err == nil && !known {
			err = fmt.Errorf("unknown switch %q (want one of %s)", d.Who, strings.Join(slices.Sorted(maps.Keys(switchDefaults)), ", "))
		}
	case "heal":
		d.Verb = HealAll
		word("all")
	case "cut":
		d.Verb = Cut
		if p.accept("one", "way") {
			d.Verb = CutOne
			who()
			word("->")
			whom()
			break
		}
		who()
		word("from")
		whom()
	case "mend":
		d.Verb = Mend
		who()
		word("from")
		whom()
	case "slow":
		d.Verb = Slow
		who()
		if p.accept("from") {
			whom()
		}
		err = p.slowness(d, err)
	case "reset", "half-open":
		d.Verb = Verb(w)
		word("links", "of")
		if err == nil {
			who()
		}
		if p.accept("to") {
			whom()
		}
	case "lose":
		d.Verb = LoseNext
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
		d.Verb = Verb(w)
		if w == "hold" && p.accept("one") {
			d.Verb = HoldOne
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
	if isCommand(d.Verb) {
		d.AtOnce = p.accept("at", "once")
		d.MustRefuse = p.accept("and", "be", "refused")
	}
	if p.accept("for") {
		if d.For, err = p.duration(); err == nil && undo(d.Verb) == "" {
			err = fmt.Errorf("%s does not last: want no \"for\"", d.Verb)
		}
	}
	return d, err
}

func (p *parser) slowness(d *Deed, err error) error {
	for err == nil && len(p.words) > 0 {
		switch {
		case p.accept("by"):
			d.By, err = p.duration()
		case p.accept("jitter"):
			d.Jitter, err = p.duration()
		case p.accept("rate"):
			d.Rate, err = p.number()
		default:
			return nil
		}
	}
	if err == nil && d.By == 0 && d.Rate == 0 {
		return fmt.Errorf("slow %s: want by DURATION or rate BYTES", d.Who)
	}
	return err
}

// clock reads "skew clock of X by D", "step database clock by D" and "set clock
// of X to TIME".
func (p *parser) clock(d *Deed, verb string) (err error) {
	d.Verb = Skew
	switch {
	case p.accept("database", "clock"):
		d.Who = Database
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
