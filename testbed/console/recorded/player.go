package recorded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/internal/signal"
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
	v       *view
	changed signal.Signal // a viewer has changed the position

	mu     sync.Mutex // guards the rest
	p      position
	speed  float64
	paused bool
}

var _ console.Source = (*Player)(nil)

// New reads a recording. The player begins at its first violation or, if there is
// none, where the scenario began.
func New(r *journal.Recording) *Player {
	p := &Player{v: newView(r), changed: signal.New(), speed: 1, paused: true}
	for _, h := range p.v.hosts {
		if strings.HasPrefix(h, "meta-") || h == testbed.Database {
			p.p.between = append(p.p.between, h)
		}
	}
	if len(p.v.broken) > 0 {
		p.to(p.v.broken[0].n + 1)
	} else {
		p.seek(0)
	}
	return p
}

func (p *Player) Run(ctx context.Context, hub *console.Hub) error {
	shown := -1 // records that are shown
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for last := time.Now(); ; {
		moved := p.advance(time.Since(last))
		last = time.Now()
		if moved || shown < 0 {
			shown = p.show(hub, shown)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed.C():
			shown = p.show(hub, shown)
			last = time.Now()
		case <-tick.C:
		}
	}
}

// show shows the position, and returns how many records are shown now.
func (p *Player) show(hub *console.Hub, shown int) int {
	p.mu.Lock()
	at, speed, paused := p.p, p.speed, p.paused
	p.mu.Unlock()
	s := p.v.state(at)
	from, end := p.v.Span()
	s.Playback = &console.Playback{
		AtMs: float64(at.at) / 1e6, FromMs: millis(from), LastsMs: millis(end), Speed: speed, Paused: paused, Record: at.n, Records: len(p.v.Records),
		Hosts: p.v.hosts, Between: at.between, Transport: at.transport,
	}
	if back := at.n < shown; back || shown < 0 || at.n-shown > 20*eventsShown {
		hub.Restart(s, p.v.events(0, at.n, eventsShown))
	} else {
		hub.Show(s, p.v.events(shown, at.n, eventsShown)...)
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
	_, end := p.v.Span()
	at := p.p.at + time.Duration(float64(by)*p.speed)
	n := p.v.Search(at + 1)
	if i := slices.IndexFunc(p.v.broken, func(b broken) bool { return b.n >= p.p.n }); i >= 0 && p.v.broken[i].n < n {
		p.paused = true
		p.to(p.v.broken[i].n + 1)
		return true
	}
	p.p.n, p.p.at = n, min(at, end)
	p.paused = n >= len(p.v.Records)
	return true
}

// to moves to behind the record before n. p.mu is held, or the player is new.
func (p *Player) to(n int) {
	n = max(0, min(n, len(p.v.Records)))
	at, _ := p.v.Span()
	if n > 0 {
		at = p.v.Records[n-1].At
	}
	p.p.n, p.p.at = n, at
}

// seek moves to a time. p.mu is held, or the player is new.
func (p *Player) seek(at time.Duration) {
	from, end := p.v.Span()
	at = max(from, min(at, end))
	p.p.n, p.p.at = p.v.Search(at+1), at
}

// step moves to behind the next or the previous record of a kind. p.mu is held.
func (p *Player) step(kind string, back bool) error {
	is := map[string]func(n int) bool{
		"message":   func(n int) bool { return p.p.shows(p.v.Records[n]) },
		"event":     func(n int) bool { return isEvent(p.v.Records[n].Entry) },
		"fault":     func(n int) bool { return isFault(p.v.Records[n]) },
		"election":  func(n int) bool { return isElection(p.v.Records[n]) },
		"violation": func(n int) bool { return slices.ContainsFunc(p.v.broken, func(b broken) bool { return b.n == n }) },
	}[kind]
	if is == nil {
		return fmt.Errorf("step to a %q: want message, event, fault, election or violation", kind)
	}
	n, by, which := p.p.n, 1, "further"
	if back {
		n, by, which = p.p.n-2, -1, "earlier"
	}
	for ; n >= 0 && n < len(p.v.Records); n += by {
		if is(n) {
			p.paused = true
			p.to(n + 1)
			return nil
		}
	}
	return fmt.Errorf("there is no %s %s", which, kind)
}

// Acts implements console.Source: every request changes only what is shown.
func (p *Player) Acts() console.Acts { return console.Everyone }

func (p *Player) Explain(_ context.Context, r console.Request) (string, error) {
	return "Changes what is shown of the recording: " + r.Do + " " + r.Value, nil
}

// Why implements console.Source: of the records before the position. The diagram shows the
// messages of the chain.
func (p *Player) Why(_ context.Context, r console.Request) ([]journal.Link, error) {
	defer p.changed.Set()
	p.mu.Lock()
	defer p.mu.Unlock()
	links := p.v.why(p.p, r.Value)
	if len(links) == 0 {
		return nil, fmt.Errorf("nothing has happened yet")
	}
	p.p.why, p.p.whyAt = map[int]bool{}, p.p.n
	hosts := slices.Clone(p.p.between)
	for _, l := range links {
		for _, n := range []int{l.Record, l.Asked} {
			if n >= 0 && p.v.Records[n].Message != nil {
				p.p.why[n] = true
				hosts = append(hosts, p.v.Records[n].Message.From, p.v.Records[n].Message.To)
			}
		}
	}
	slices.SortFunc(hosts, compareHosts)
	p.p.between = slices.Compact(hosts)
	return links, nil
}

// List implements console.Source.
func (p *Player) List(context.Context, console.Request) (console.Listing, error) {
	return console.Listing{}, errors.New("a recording has messages and events, but no lists of services")
}

func (p *Player) Act(_ context.Context, r console.Request) error {
	defer p.changed.Set()
	return p.do(r)
}

func (p *Player) do(r console.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Do {
	case "play":
		if p.p.n >= len(p.v.Records) {
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
		ms, record, _ := strings.Cut(r.Value, "/") // milliseconds, and which record of that instant was the last one
		at, err := strconv.ParseFloat(ms, 64)
		if err != nil || !(at > -1e12 && at < 1e12) {
			return fmt.Errorf("position %q: want milliseconds", r.Value)
		}
		p.seek(time.Duration(math.Round(at * float64(time.Millisecond))))
		if n, err := strconv.Atoi(record); err == nil {
			p.p.n = min(p.p.n, max(n, p.v.Search(p.p.at)))
		}
	case "next", "previous":
		return p.step(r.Value, r.Do == "previous")
	case "between":
		var hosts []string
		for h := range strings.SplitSeq(r.Value, ",") {
			if slices.Contains(p.v.hosts, h) && !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		if len(hosts) < 2 {
			return fmt.Errorf("hosts %q: want two or more of %s", r.Value, strings.Join(p.v.hosts, ","))
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
