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

// action reads an action by the first of the forms that fits. If none does, the error
// is that of the form of which most words fit.
func (p *parser) action() (d *testbed.Step, err error) {
	p.words = slices.Clone(p.words)
	if len(p.words) > 2 && p.words[1] == "database" && p.words[2] == "clock" { // short for the clock of a host
		p.words = slices.Replace(p.words, 1, 3, "clock", "of", testbed.Database)
	}
	if len(p.words) > 1 && p.words[0] == "step" && p.words[1] == "clock" {
		p.words[0] = "skew"
	}
	begin, left := p.words, len(p.words)
	err = fmt.Errorf("unknown action %q", strings.Join(begin[:min(1, left)], ""))
	for _, f := range testbed.Forms {
		words := strings.Fields(f.Words)
		if p.words = begin; !p.accept(words[0]) {
			continue
		}
		d = &testbed.Step{Verb: f.Verb}
		if words[0] == "database" {
			d.Who = testbed.Database
		}
		if failed := p.form(d, words[1:]); failed == nil {
			return d, p.endOf(d)
		} else if len(p.words) <= left {
			err, left = failed, len(p.words)
		}
	}
	return nil, err
}

// form reads what follows the first word of a form.
func (p *parser) form(d *testbed.Step, words []string) (err error) {
	options := map[string]string{} // the parts that may be left out, by the word before them
	for len(words) > 0 && err == nil {
		n := 0
		for n < len(words) && d.Part(words[n]) == nil && words[n][0] != '[' {
			n++
		}
		switch {
		case n > 0:
			err = p.want(words[:n]...)
		case words[0][0] == '[':
			options[words[0][1:]], n = strings.TrimSuffix(words[1], "]"), 2
		default:
			err, n = p.part(d, words[0]), 1
		}
		words = words[n:]
	}
	for err == nil && len(p.words) > 0 && options[p.words[0]] != "" {
		word := p.next()
		err = p.part(d, options[word])
		delete(options, word)
	}
	if err == nil && d.Verb == testbed.Slow && d.By == 0 && d.Rate == 0 {
		err = fmt.Errorf("slow %s: want by DURATION or rate BYTES", d.Who)
	}
	return err
}

// most are the largest values of parts that are numbers above 0.
var most = map[string]int{"NUMBER": 65535, "FACTOR": 1000, "ARRIVALS": 10_000}

// part reads a part of a form.
func (p *parser) part(d *testbed.Step, name string) (err error) {
	switch at := d.Part(name).(type) {
	case *testbed.Selector:
		switch name {
		case "WHO", "WHOM":
			*at, err = p.selector()
			return err
		}
		*at = testbed.Selector(p.next())
		if _, known := testbed.SwitchDefaults[string(d.Who)]; !known {
			err = fmt.Errorf("unknown switch %q (want one of %s)", d.Who, strings.Join(slices.Sorted(maps.Keys(testbed.SwitchDefaults)), ", "))
		}
	case *time.Duration:
		*at, err = p.duration()
	case *time.Time:
		w := p.next()
		if *at, err = time.Parse(time.RFC3339, w); err != nil {
			err = fmt.Errorf("invalid time %q (want for example 2038-01-19T03:14:00Z)", w)
		}
	case *trace.Kind:
		*at, err = p.point()
	case *string:
		if *at = p.next(); !slices.Contains(testbed.Statements, *at) {
			err = fmt.Errorf("unknown statements %q (want one of %s)", *at, strings.Join(testbed.Statements, ", "))
		}
	case *int:
		*at, err = p.number()
		if bound := most[name]; err == nil && bound > 0 && (*at < 1 || *at > bound) {
			err = fmt.Errorf("invalid number %q (want 1 to %d)", fmt.Sprint(*at), bound)
		}
	}
	return err
}

// endOf reads what may follow any action, or any command of an operator.
func (p *parser) endOf(d *testbed.Step) (err error) {
	switch d.Verb {
	case testbed.Resign, testbed.Quit, testbed.Forbid:
		d.Force = p.accept("by", "force")
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
	return err
}

func (p *parser) point() (trace.Kind, error) {
	w := trace.Kind(p.next())
	if !slices.Contains(trace.Points(), w) {
		return "", fmt.Errorf("unknown point %q (want one of %v)", w, trace.Points())
	}
	return w, nil
}
