package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"conclave/internal/signal"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console"
	"conclave/wire/admit"
)

// Config describes the cluster to show.
type Config struct {
	Title string
	// Processes returns the processes and their states; one goroutine calls it.
	Processes func(ctx context.Context) ([]testbed.Status, error)
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
	Settings Settings
	// Aside, if set, is called to run a check in a cluster whose time is virtual. The
	// check is run outside of its bubble, or is left out, if it need not be. Then no
	// question is put to the leader either, so that only acts change what happens, and the
	// nodes' events come through Source.Claim: there are no trace files.
	Aside func(check func(), must bool)
	// Entries limits a history, which then ends when the cluster is quiet; 0: maxEntries.
	Entries int
}

// Source is a console.Source.
type Source struct {
	cfg      Config
	boot     string // differs between two consoles on one cluster
	looker   looker
	listings *admit.Budget // lists that are being put together, by host
	record   *record
	meter    *meter
	again    signal.Signal // look now
	can      *testbed.Capabilities
	running  sync.WaitGroup // what was begun by actions
	listing  sync.Once      // sets playable
	playable []string

	mu       sync.Mutex // guards the rest
	work     context.Context
	beliefs  console.Beliefs
	pending  []console.Event
	status   status
	active   testbed.ActiveFaults
	outcomes map[string]console.Outcome
	acted    int
	play     *console.Play
	stop     context.CancelFunc // ends the scenario; nil: none is played
	played   int
	failed   failure // of the last scenario, until a viewer does something after it
	seen     *sight
	ended    bool
	left     error // why what a scenario has left was not healed at the end
}

// failure is the first expectation of a scenario that was not met.
type failure struct {
	at       time.Time
	of, what string
}

var _ console.Source = (*Source)(nil)

// New returns a source that does nothing yet. The cluster is open.
func New(c Config) *Source {
	if c.TokenFor == nil {
		c.TokenFor = func(string) string { return "" }
	}
	s := &Source{cfg: c, boot: strings.ToLower(rand.Text()[:4]), looker: looker{c.HTTP, c.TokenFor, c.Processes}, listings: admit.New(listsAtOnce, listsEach), meter: newMeter(), again: signal.New(), beliefs: console.Beliefs{}, outcomes: map[string]console.Outcome{}}
	if c.Cluster != nil {
		s.can = c.Cluster.Capabilities()
	}
	s.record = &record{boot: s.boot, cluster: c.Cluster, meter: s.meter, traced: c.Traces != "" || c.Aside != nil, aside: c.Aside, limit: cmp.Or(c.Entries, maxEntries), quiet: s.quiet}
	s.cfg.Settings = settings(c.Settings)
	return s
}

// Broken returns the earliest violation that was found; nil: none was.
func (s *Source) Broken() *console.Broken {
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	return s.record.broken
}

// Violation returns the first violation, or else what has failed in the scenario that was
// played last, at its time since a moment; "": there is none.
func (s *Source) Violation(since time.Time) (id string, v check.Violation) {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	if b := s.record.broken; b == nil {
		id, v = failed.of, check.Violation{At: failed.at.Sub(since), What: failed.what}
	} else {
		id, v = b.ID, check.Violation{At: s.record.brokenAt.Sub(since), What: b.What, Evidence: b.Evidence}
	}
	return id, v
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
