package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"conclave/internal/join"
	"conclave/internal/trace"
	"conclave/testbed"
)

// scoped is the cluster for a group of clients. Another group may have the same
// names of clients: a prefix is added to them. It starts and stops no node.
type scoped struct {
	testbed.Cluster
	prefix string
	do     func(ctx context.Context, a testbed.Action) error // nil: Cluster.Do
	can    *testbed.Capabilities
	until  context.Context // of the scenario whose clients they are; nil: of none

	mu      sync.Mutex // guards the rest
	clients []testbed.Client
	names   map[string]string // full names, by the names in the group
	unheard int               // clients that left before Close, and whose good-bye had no answer
}

// newScoped returns the cluster for a group; can is what can be done there, nil for a group
// without a scenario.
func newScoped(of testbed.Cluster, prefix string, can *testbed.Capabilities) *scoped {
	s := &scoped{Cluster: of, prefix: prefix, names: map[string]string{}}
	if can == nil {
		return s
	}
	narrow := *can
	if can.Lingering != nil {
		narrow.Lingering = func(name string, linger time.Duration) (testbed.Client, error) {
			return s.start(name, func(name string) (testbed.Client, error) { return can.Lingering(name, linger) })
		}
	}
	if can.ByHTTP != nil {
		narrow.ByHTTP = func(name string) (testbed.Client, error) { return s.start(name, can.ByHTTP) }
	}
	s.can = &narrow
	return s
}

// Open finds the cluster running.
func (s *scoped) Open(context.Context, testbed.Size, *trace.Gate) error { return nil }

// Capabilities returns what can be done here.
func (s *scoped) Capabilities() *testbed.Capabilities { return s.can }

// Events are recorded elsewhere.
func (s *scoped) Events(func(at time.Time, c trace.Claim)) (bool, error) { return false, nil }

// Do does what is asked with the full names of clients.
func (s *scoped) Do(ctx context.Context, a testbed.Action) error {
	s.mu.Lock()
	for _, name := range []*string{&a.Node, &a.Peer} {
		if full := s.names[*name]; full != "" {
			*name = full
		}
	}
	s.mu.Unlock()
	if s.do != nil {
		return s.do(ctx, a)
	}
	return s.Cluster.Do(ctx, a)
}

// Client starts a client.
func (s *scoped) Client(name string) (testbed.Client, error) { return s.start(name, s.Cluster.Client) }

func (s *scoped) start(name string, start func(name string) (testbed.Client, error)) (testbed.Client, error) {
	c, err := start(s.prefix + name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	s.names[name] = s.prefix + name
	return c, nil
}

// stoppedClose is how long the clients of a scenario that was stopped may take to
// withdraw: what keeps them from it may be a fault that is healed only then.
const stoppedClose = 2 * time.Second

// Close withdraws what the clients have published, and ends them. It is no failure that one
// which had left before was not answered: no session may have been there then.
func (s *scoped) Close(ctx context.Context) (err error) {
	if s.until != nil && s.until.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stoppedClose)
		defer cancel()
	}
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	var errs []error
	for _, err := range join.Map(clients, func(c testbed.Client) error { return c.Close(ctx) }) {
		if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
			s.unheard++
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
