package recorded

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
)

// frame is how often the page is changed while a recording is played.
const frame = 50 * time.Millisecond

// The speeds that a viewer may choose.
const minSpeed, maxSpeed = 0.0001, 1000

// Player plays a recording.
type Player struct {
	r       *journal.Reader
	x       *index
	changed chan struct{} // has an element when the position was changed by a viewer

	mu     sync.Mutex // guards the rest
	p      position
	speed  float64
	paused bool
}

var (
	_ console.Source = (*Player)(nil)
	_ console.Actor  = (*Player)(nil)
)

// New reads a recording. The player begins at its first violation or, if there is
// none, where the scenario began.
func New(r *journal.Reader) *Player {
	x := read(r)
	p := &Player{r: r, x: x, changed: make(chan struct{}, 1), speed: 1, paused: true}
	for _, h := range x.hosts {
		if strings.HasPrefix(h, "meta-") || h == testbed.Database {
			p.p.between = append(p.p.between, h)
		}
	}
	if len(x.broken) > 0 {
		p.to(x.broken[0].n + 1)
	} else {
		p.seek(0)
	}
	return p
}

// Run implements console.Source.
func (p *Player) Run(ctx context.Context, hub *console.Hub) error {
	v := newView(p.r, p.x)
	shown := -1 // records that are shown
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for last := time.Now(); ; {
		moved := p.advance(time.Since(last))
		last = time.Now()
		if moved || shown < 0 {
			shown = p.show(hub, v, shown)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
			shown = p.show(hub, v, shown)
			last = time.Now()
		case <-tick.C:
		}
	}
}

// show shows the position, and returns how many records are shown now.
func (p *Player) show(hub *console.Hub, v *view, shown int) int {
	p.mu.Lock()
	at, speed, paused := p.p, p.speed, p.paused
	p.mu.Unlock()
	s := v.state(at)
	from, end := p.r.Span()
	s.Playback = &console.Playback{
		AtMs: millis(at.at), FromMs: millis(from), LastsMs: millis(end), Speed: speed, Paused: paused, Record: at.n, Records: p.r.Len(),
		Hosts: p.x.hosts, Between: at.between, Transport: at.transport,
	}
	if back := at.n < shown; back || shown < 0 || at.n-shown > 20*eventsShown {
		hub.Restart(s, v.events(0, at.n, eventsShown))
	} else {
		hub.Show(s, v.events(shown, at.n, eventsShown)...)
	}
	return at.n
}

// advance goes on by some time of the clock, unless the player is paused. It stops
// at the end and behind a violation.
func (p *Player) advance(by time.Duration) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return false
	}
	_, end := p.r.Span()
	at := p.p.at + time.Duration(float64(by)*p.speed)
	n := p.r.Search(at + 1)
	if i := before(p.x.broken, p.p.n, func(b broken) int { return b.n }); i < len(p.x.broken) && p.x.broken[i].n < n {
		p.paused = true
		p.to(p.x.broken[i].n + 1)
		return true
	}
	p.p.n, p.p.at = n, min(at, end)
	p.paused = n >= p.r.Len()
	return true
}

// to moves to behind the record before n. p.mu is held, or the player is new.
func (p *Player) to(n int) {
	n = max(0, min(n, p.r.Len()))
	at, _ := p.r.Span()
	if n > 0 {
		at = p.r.Record(n - 1).At
	}
	p.p.n, p.p.at = n, at
}

// seek moves to a time. p.mu is held, or the player is new.
func (p *Player) seek(at time.Duration) {
	from, end := p.r.Span()
	at = max(from, min(at, end))
	p.p.n, p.p.at = p.r.Search(at+1), at
}

// step moves to behind the next or the previous record of a kind. p.mu is held.
func (p *Player) step(kind string, back bool) error {
	numbers, err := p.numbers(kind)
	if err != nil {
		return err
	}
	same := func(n int) int { return n }
	i := before(numbers, p.p.n, same)
	if back {
		i = before(numbers, p.p.n-1, same) - 1
	}
	if i < 0 || i >= len(numbers) {
		return fmt.Errorf("there is no %s %s", map[bool]string{true: "earlier", false: "further"}[back], kind)
	}
	p.paused = true
	p.to(numbers[i] + 1)
	return nil
}

// numbers returns the records of a kind that a viewer can step to.
func (p *Player) numbers(kind string) (out []int, err error) {
	switch kind {
	case "message":
		for _, m := range p.x.messages {
			if p.p.shows(m) {
				out = append(out, m.n)
			}
		}
	case "event":
		return p.x.events, nil
	case "fault", "election":
		for _, m := range p.r.Marks() {
			if string(m.Kind) == kind {
				out = append(out, m.Number)
			}
		}
	case "violation":
		for _, b := range p.x.broken {
			out = append(out, b.n)
		}
	default:
		return nil, fmt.Errorf("step to a %q: want message, event, fault, election or violation", kind)
	}
	return slices.Compact(out), nil
}

// Harmless implements console.Actor: every request changes only what is shown.
func (p *Player) Harmless(console.Request) bool { return true }

// Explain implements console.Actor.
func (p *Player) Explain(_ context.Context, r console.Request) (string, error) {
	return "Changes what is shown of the recording: " + r.Do + " " + r.Value, nil
}

// Act implements console.Actor.
func (p *Player) Act(_ context.Context, r console.Request) error {
	err := p.do(r)
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return err
}

func (p *Player) do(r console.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Do {
	case "play":
		if p.p.n >= p.r.Len() {
			return fmt.Errorf("the recording has ended: go back first")
		}
		p.paused = false
	case "pause":
		p.paused = true
	case "speed":
		speed, err := strconv.ParseFloat(r.Value, 64)
		if err != nil || !(speed >= minSpeed && speed <= maxSpeed) {
			return fmt.Errorf("speed %q: want %v to %v", r.Value, minSpeed, maxSpeed)
		}
		p.speed = speed
	case "seek":
		at, err := strconv.ParseFloat(r.Value, 64)
		if err != nil || !(at > -1e12 && at < 1e12) {
			return fmt.Errorf("position %q: want milliseconds", r.Value)
		}
		p.seek(time.Duration(at * float64(time.Millisecond)))
	case "next", "previous":
		return p.step(r.Value, r.Do == "previous")
	case "between":
		var hosts []string
		for h := range strings.SplitSeq(r.Value, ",") {
			if slices.Contains(p.x.hosts, h) && !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		if len(hosts) < 2 {
			return fmt.Errorf("hosts %q: want two or more of %s", r.Value, strings.Join(p.x.hosts, ","))
		}
		slices.SortFunc(hosts, compareHosts)
		p.p.between = hosts
	case "transport":
		p.p.transport = r.Value == "on"
	default:
		return fmt.Errorf("%q: want play, pause, speed, seek, next, previous, between or transport", r.Do)
	}
	return nil
}
