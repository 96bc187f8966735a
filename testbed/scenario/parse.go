package scenario

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/testbed"
	"conclave/testbed/check"
)

// Parse reads a scenario. Errors begin with FILE:LINE and quote the word that
// was not understood; file is only used for that and for the scenario's name.
func Parse(file, text string) (Scenario, error) {
	p := &parser{file: file, lease: testbed.DefaultLease}
	p.s.Name = strings.TrimSuffix(path.Base(file), ".txt")
	about := &p.s.About // what a comment describes; nil: nothing
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "#"); ok {
			if about != nil {
				*about += strings.TrimSpace(text) + "\n"
			}
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		if p.words = strings.Fields(line); len(p.words) == 0 {
			continue
		}
		scenes := len(p.s.Scenes)
		if err := p.statement(); err != nil {
			return Scenario{}, fmt.Errorf("%s:%d: %w", p.file, p.line, err)
		}
		if len(p.words) > 0 {
			return Scenario{}, fmt.Errorf("%s:%d: unexpected %q at the end of the line", p.file, p.line, strings.Join(p.words, " "))
		}
		if about = nil; len(p.s.Scenes) > scenes {
			about = &p.s.Scenes[scenes].About
		}
	}
	p.s.About = strings.TrimSpace(p.s.About)
	for i := range p.s.Scenes {
		p.s.Scenes[i].About = strings.TrimSpace(p.s.Scenes[i].About)
	}
	empty := len(p.s.Lines) == 0 && p.s.Until == 0 // before the default of Until
	p.s = p.s.withDefaults()
	if err := p.s.check(); err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	if empty {
		return Scenario{}, fmt.Errorf("%s: empty: no action and no expectation", file)
	}
	return p.s, nil
}

func (p *parser) statement() error {
	switch w := p.next(); w {
	case "cluster":
		return p.cluster()
	case "takeover":
		if p.s.Cluster.Takeover = p.next(); p.s.Cluster.Takeover != "witness" && p.s.Cluster.Takeover != "lease" {
			return fmt.Errorf("unknown takeover %q (want witness or lease)", p.s.Cluster.Takeover)
		}
		return nil
	case "lease":
		d, err := p.duration()
		p.s.Cluster.Lease, p.lease = d, d
		return err
	case "budget":
		return p.budget()
	case "only":
		p.s.Bubble = true
		return p.want("in", "the", "bubble")
	case "clients":
		return p.clients()
	case "until":
		d, err := p.duration()
		until := &p.s.Until
		if n := len(p.s.Scenes); n > 0 {
			until = &p.s.Scenes[n-1].Until
		}
		*until = d
		return err
	case "scene":
		title := p.rest()
		if title == "" {
			return fmt.Errorf("scene: want a title")
		}
		p.s.Scenes = append(p.s.Scenes, Scene{Title: title})
		return nil
	case "then":
		if len(p.s.Scenes) == 0 {
			return fmt.Errorf("then: want it in a scene")
		}
		p.s.Scenes = append(p.s.Scenes, Scene{})
		return nil
	case "look":
		if err := p.want("at"); err != nil {
			return err
		}
		if len(p.s.Scenes) == 0 {
			return fmt.Errorf("look at: want it in a scene")
		}
		p.s.Scenes[len(p.s.Scenes)-1].Look = p.rest()
		return nil
	case "figure":
		name := p.next()
		if !slices.Contains(check.FigureNames(), name) {
			return fmt.Errorf("unknown figure %q (want one of %s)", name, strings.Join(check.FigureNames(), ", "))
		}
		p.s.Figures = append(p.s.Figures, name)
		return nil
	case "at", "every":
		return p.step(w)
	default:
		return fmt.Errorf("unknown statement %q (want cluster, takeover, lease, budget, only, clients, scene, look, at, every, until or figure)", w)
	}
}

func (p *parser) cluster() error {
	for len(p.words) > 0 {
		n, err := p.number()
		if err != nil {
			return err
		}
		w := p.next()
		all := words(&p.s.Cluster)
		i := slices.IndexFunc(all, func(x word) bool { return strings.TrimSuffix(x.name, "s") == strings.TrimSuffix(w, "s") })
		if i < 0 {
			return fmt.Errorf("unknown word %q (want meta, session, data, slots or replicas)", w)
		}
		*all[i].value.(*int) = n
	}
	return nil
}

// budget reads "ROLE D a message D a byte queue BYTES".
func (p *parser) budget() (err error) {
	role := p.next()
	b := p.s.Cluster.Budgets.Of(role)
	if b == nil {
		return fmt.Errorf("unknown role %q (want one of %s)", role, strings.Join(testbed.BudgetRoles, ", "))
	}
	if b.Message, err = p.duration(); err != nil {
		return err
	}
	if err = p.want("a", "message"); err != nil {
		return err
	}
	if b.Byte, err = p.duration(); err != nil {
		return err
	}
	if err = p.want("a", "byte"); err != nil {
		return err
	}
	for _, d := range []time.Duration{b.Message, b.Byte} {
		if d < 0 || d > time.Second {
			return fmt.Errorf("budget of %s: invalid duration %s (want 0s to 1s)", role, d)
		}
	}
	if p.accept("queue") {
		b.Queue, err = p.number()
	}
	if err == nil && b.Message == 0 && b.Byte == 0 {
		err = fmt.Errorf("budget of %s: want a time above 0 for a message or for a byte", role)
	}
	return err
}

func (p *parser) clients() (err error) {
	if p.s.Load.Clients, err = p.number(); err != nil {
		return err
	}
	p.s.Load.Names = p.s.Load.Clients
	for len(p.words) > 0 && err == nil {
		w, all := p.next(), p.s.Load.words()
		i := slices.IndexFunc(all, func(x word) bool { return x.name == w })
		if i < 0 {
			return fmt.Errorf("unknown word %q (want names, publishers, bytes, every, replace, guests, readers, rolling, bulk, http or sofa)", w)
		}
		switch value := all[i].value.(type) {
		case *int:
			*value, err = p.number()
		case *time.Duration:
			*value, err = p.duration()
		}
	}
	return err
}

func (p *parser) step(w string) (err error) {
	s := Line{Number: p.line, Scene: len(p.s.Scenes)}
	if w == "every" {
		if s.Every, err = p.duration(); err != nil {
			return err
		}
		if s.Every <= 0 {
			return fmt.Errorf("every %s: want a duration above 0", s.Every)
		}
		if err = p.want("from"); err != nil {
			return err
		}
	}
	if s.At, err = p.duration(); err != nil {
		return err
	}
	if w == "every" {
		if err = p.want("to"); err != nil {
			return err
		}
		if s.To, err = p.duration(); err != nil {
			return err
		}
	}
	if p.accept("expect") {
		s.Expect, err = p.expectation()
	} else {
		s.Step, err = p.action()
	}
	if err == nil {
		p.s.Lines = append(p.s.Lines, s)
	}
	return err
}

// expectation reads a condition and its time.
func (p *parser) expectation() (e *Expectation, err error) {
	e = &Expectation{}
	if e.What = p.condition(); e.What == "" {
		return nil, fmt.Errorf("unknown expectation %q (want one of %s)", strings.Join(p.words, " "), strings.Join(conditionNames(), ", "))
	}
	c := conditions[e.What]
	if c.who {
		if e.Who, err = p.selector(); err != nil {
			return nil, err
		}
	}
	if c.point {
		if err = p.want("at"); err != nil {
			return nil, err
		}
		if e.Point, err = p.point(); err != nil {
			return nil, err
		}
	}
	if c.count {
		if e.Count, err = p.number(); err != nil {
			return nil, err
		}
	}
	switch {
	case p.accept("within"):
		e.Within, err = p.duration()
	case p.accept("for"):
		if e.For, err = p.duration(); err == nil && e.For <= 0 {
			err = fmt.Errorf("for %s: want a duration above 0", e.For)
		}
	default:
		err = fmt.Errorf("expect %s: want within DURATION or for DURATION", e.What)
	}
	return e, err
}

func (p *parser) condition() string {
	for _, name := range conditionNames() { // longer ones first
		if p.accept(strings.Fields(name)...) {
			return name
		}
	}
	return ""
}
