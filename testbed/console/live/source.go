package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/internal/signal"
	"conclave/internal/sleep"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
)

const (
	lookEvery = 250 * time.Millisecond
	lookPause = 200 * time.Millisecond // between two looks, and so between two messages to the viewers, at least
	tailEvery = 100 * time.Millisecond
	termsKept = 200
)

// Config describes the cluster to show.
type Config struct {
	Title string
	// Processes returns the processes and their states; one goroutine calls it.
	Processes func(ctx context.Context) ([]supervisor.Process, error)
	HTTP      *http.Client // without a limit for the whole request, because events are followed with it
	// TokenFor returns what is sent to an address, for reading and for an operator's
	// commands; nil: nothing. An address may be one that a process has named.
	TokenFor func(address string) string
	// Cluster is where the clients run and what is acted on; nil: it is only
	// watched.
	Cluster testbed.Cluster
	// Traces is the folder of the nodes' trace files; "": there are none.
	Traces string
	// Ends: the cluster ends with the console, which then leaves what a scenario has
	// done as it is.
	Ends bool
	// Settings are those with which the cluster was started; what is zero has its
	// default.
	Settings supervisor.Config
}

// Source is a console.Source.
type Source struct {
	cfg      Config
	boot     string // differs between two consoles on one cluster
	looker   looker
	record   *record
	meter    *meter
	again    signal.Signal // look now
	can      *testbed.Capabilities
	running  sync.WaitGroup // what was begun by actions
	listing  sync.Once      // sets playable
	playable []string

	mu       sync.Mutex // guards the rest
	work     context.Context
	size     testbed.Size
	beliefs  console.Beliefs
	pending  []console.Event
	status   status
	active   testbed.ActiveFaults
	outcomes map[string]console.Outcome
	acted    int
	play     *console.Play
	stop     context.CancelFunc // ends the scenario; nil: none is played
	played   int
	seen     *sight
	ended    bool
	left     error // why what a scenario has left was not healed at the end
}

var _ console.Source = (*Source)(nil)

// New returns a source that does nothing yet. The cluster is open.
func New(c Config) *Source {
	if c.TokenFor == nil {
		c.TokenFor = func(string) string { return "" }
	}
	s := &Source{cfg: c, boot: strings.ToLower(rand.Text()[:4]), looker: looker{c.HTTP, c.TokenFor, c.Processes}, meter: newMeter(), again: signal.New(), beliefs: console.Beliefs{}, outcomes: map[string]console.Outcome{}}
	if c.Cluster != nil {
		s.can = c.Cluster.Capabilities()
	}
	s.record = &record{boot: s.boot, cluster: c.Cluster, meter: s.meter, traced: c.Traces != "", quiet: s.quiet}
	s.cfg.Settings = settings(c.Settings)
	return s
}

// Run shows the cluster until ctx ends. It fails if what a scenario has left could
// not be healed.
func (s *Source) Run(ctx context.Context, hub *console.Hub) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.work = ctx
	s.mu.Unlock()
	var all sync.WaitGroup
	defer func() {
		cancel()
		s.mu.Lock()
		s.ended = true // no action begins any more
		s.mu.Unlock()
		all.Wait()
		s.running.Wait()
		err = s.left
	}()
	seen := s.first(ctx)
	if seen == nil {
		return nil
	}
	s.mu.Lock()
	s.size = size(seen, s.cfg.Settings)
	s.record.size = s.size
	s.mu.Unlock()
	if s.cfg.Cluster != nil {
		all.Go(func() { s.record.run(ctx) })
		all.Go(func() { s.seconds(ctx) })
	}
	if s.cfg.Traces != "" {
		all.Go(func() { s.tail(ctx) })
	}
	moves, followed := console.Moves{}, map[string]bool{"": true}
	for {
		began := time.Now()
		for _, p := range seen.processes {
			if !followed[p.HTTP] {
				followed[p.HTTP] = true
				all.Go(func() { s.follow(ctx, p.HTTP) })
			}
		}
		state, events := s.state(seen, moves)
		hub.Show(state, events...)
		select {
		case <-ctx.Done():
			return nil
		case <-s.again.C():
		case <-time.After(lookEvery - time.Since(began)):
		}
		if sleep.For(ctx, lookPause-time.Since(began)) != nil {
			return nil
		}
		next, err := s.looker.look(ctx, seen)
		if err == nil {
			seen = next
		}
	}
}

// first looks until the processes are known, and returns nil if ctx ends before.
func (s *Source) first(ctx context.Context) *sight {
	for {
		seen, err := s.looker.look(ctx, nil)
		if err == nil && len(seen.processes) > 0 {
			return seen
		}
		if sleep.For(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// seconds ends each second of the meter.
func (s *Source) seconds(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.meter.second(now, s.now().missing)
		case <-ctx.Done():
			return
		}
	}
}

// tail reads the nodes' trace files.
func (s *Source) tail(ctx context.Context) {
	files := newTail(s.cfg.Traces)
	defer files.close()
	for sleep.For(ctx, tailEvery) == nil {
		if s.cfg.Cluster != nil && s.record.current() == nil {
			continue // the first history begins in a moment
		}
		began := time.Now()
		all, err := files.read(func(at time.Time, c trace.Claim) {
			s.record.event(at, c)
			s.mu.Lock()
			defer s.mu.Unlock()
			switch c.Kind {
			case trace.Led, trace.Extended:
				s.beliefs.Trusts(c.Node.Name, c.Term, at.UnixMilli(), c.Until.UnixMilli())
			case trace.Left:
				s.beliefs.Left(c.Node.Name, c.Term, at.UnixMilli())
			}
		})
		s.record.took(began, all, err)
	}
}

// event takes an event of a node.
func (s *Source) event(e wire.Event) {
	shown := console.Event{At: e.At.UnixMilli(), Node: e.Node, Kind: e.Type, Term: e.Term, Text: e.Text}
	if n, ok := e.Data["slot"].(float64); ok {
		id := int(n)
		shown.Slot = &id
	}
	s.add(shown)
}

// state makes the state of a look, and takes the events that are pending. moves
// has the last moves of each slot.
func (s *Source) state(seen *sight, moves console.Moves) (console.State, []console.Event) {
	now := snapshot(seen)
	if s.cfg.Cluster != nil {
		s.record.look(now)
	}
	if before := s.before(); before != nil {
		moves.Note(seen.at.UnixMilli(), outside.Table(before.slots), now.Table)
	}
	table := console.Slots(now.Table, moves)
	out := console.State{
		Mode: "live", Title: s.cfg.Title, Now: seen.at.UnixMilli(), Leader: seen.leader.Leader, Term: seen.leader.Term, Epoch: seen.slots.Epoch.String(),
		Nodes: nodes(seen, table, s.cfg.Settings.Lease), Clients: map[string]console.Client{}, Links: map[string]console.Link{}, Terms: map[string]console.Term{},
		Slots: table, Offers: s.offers(), Scenario: s.scenarios(),
	}
	if seen.slots.Protected {
		out.Protected = seen.slots.Reason
	}
	for session, all := range seen.clients {
		for i, c := range all {
			out.Clients[fmt.Sprint(session, " ", c.Name, " ", i)] = c
		}
	}
	for _, e := range seen.elections[:min(termsKept, len(seen.elections))] {
		out.Terms[strconv.FormatUint(e.Term, 10)] = console.Term{
			Term: e.Term, Owner: e.Owner, Previous: e.Previous, Cause: e.Cause, LeaderlessMs: e.LeaderlessMs, At: e.At.UnixMilli(),
		}
	}
	if s.cfg.Cluster != nil {
		s.record.show(&out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.active.List() {
		if a.Verb == testbed.Cut || a.Verb == testbed.CutOne || a.Verb == testbed.Slow {
			peer := cmp.Or(a.Peer, "all others")
			out.Links[a.Node+" "+peer] = console.Link{A: a.Node, B: peer, What: string(a.Verb)}
		}
	}
	for name, leads := range seen.believes {
		if leads && s.cfg.Traces == "" {
			s.beliefs.Trusts(name, seen.leader.Term, out.Now, out.Now+time.Second.Milliseconds())
		}
	}
	for name, n := range out.Nodes {
		if n.State == "killed" || n.State == "exited" {
			s.beliefs.Left(name, 0, out.Now)
		}
	}
	out.Believed = s.beliefs.At(out.Now)
	out.Outcomes, out.Play = maps.Clone(s.outcomes), s.play
	s.status = statusOf(seen, now, out)
	s.seen = seen
	events := s.pending
	s.pending = nil
	slices.SortStableFunc(events, func(a, b console.Event) int { return cmp.Compare(a.At, b.At) })
	return out, events
}

// add adds an event, which is shown with the next look.
func (s *Source) add(e console.Event) {
	s.mu.Lock()
	s.pending = append(s.pending, e)
	s.mu.Unlock()
	s.again.Set()
}

// before returns the look before this one.
func (s *Source) before() *sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// quiet reports whether the cluster is at rest and nothing is done to it.
func (s *Source) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.atRest && s.stop == nil && len(s.active.List()) == 0
}

// now returns what the last look has seen.
func (s *Source) now() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// status is what outcomes are measured by.
type status struct {
	term       uint64
	atRest     bool // it has a leader, every slot is served, none moves, and no member is suspect
	unreadable int  // slots
	missing    int
	gaps       map[uint64]int64 // leaderless milliseconds, by term
}
