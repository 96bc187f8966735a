package zklatch_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/internal/zktest"
	"conclave/lab/article004/zklatch"
	"conclave/lab/article004/zklatch/memtree"
	"conclave/testbed/simulated/simnet"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// timeout is the session timeout.
const timeout = 3 * time.Second

// bench is a tree, and how to make clients of it.
type bench struct {
	t       *testing.T
	path    string          // all nodes are below it
	server  *memtree.Server // nil on a real ZooKeeper,
	real    zktest.Server   // if server is nil
	network *simnet.Net     // if the connections are in memory
	dial    dialer
	addr    string

	mu     sync.Mutex // guards the fields below
	faults []fault    // of the server in memory
	before func(op memtree.Op, path string)
}

// fault is what happens to the next request of this kind on a path with this text.
type fault struct {
	op      memtree.Op
	path    string
	outcome memtree.Outcome
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// user is one client with its own session.
type user struct {
	*zklatch.Client
	cable *electortest.Cable // its path
}

// everywhere runs a test over ZooKeeper's protocol in memory, and on a real ZooKeeper if
// that is asked for.
func everywhere(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Run("wire", func(t *testing.T) { wire(t, test) })
	t.Run("zookeeper", func(t *testing.T) { test(t, onZooKeeper(t)) })
}

// wire runs a test in a bubble, with a server in memory.
func wire(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, onWire(t)) })
}

// onWire is a server in memory that is reached by the real client; call it inside a
// bubble.
func onWire(t *testing.T) *bench {
	network := simnet.New(1)
	listener, err := network.Host("zk").Listen(t.Context(), "tcp", "zk:2181")
	require.NoError(t, err)
	b := &bench{t: t, path: "/test", server: memtree.New(), network: network, dial: network.Host("nodes").DialContext, addr: "zk:2181"}
	b.server.Around = b.around
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return b
}

// lose adds a fault.
func (b *bench) lose(outcome memtree.Outcome, op memtree.Op, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fault{op, path, outcome})
}

// left returns how many faults have not happened yet.
func (b *bench) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.faults)
}

// beforeEach sets a function that is called before each request is executed.
func (b *bench) beforeEach(do func(op memtree.Op, path string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = do
}

func (b *bench) around(op memtree.Op, path string) memtree.Outcome {
	b.mu.Lock()
	before := b.before
	b.mu.Unlock()
	if before != nil {
		before(op, path)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if f.op == op && strings.Contains(path, f.path) {
			b.faults = slices.Delete(b.faults, i, i+1)
			return f.outcome
		}
	}
	return memtree.Answered
}

// onZooKeeper is a real one, in real time.
func onZooKeeper(t *testing.T) *bench {
	server := zktest.New(t)
	return &bench{t: t, path: server.Path, real: server, dial: new(net.Dialer).DialContext, addr: server.Addr}
}

// user connects one more client; it is closed when the test ends.
func (b *bench) user() *user { return b.retrying(nil) }

// retrying connects one with a policy.
func (b *bench) retrying(policy zklatch.RetryPolicy) *user {
	b.t.Helper()
	u := &user{cable: electortest.NewCable(b.dial)}
	var err error
	u.Client, err = zklatch.Dial(zklatch.Config{
		Servers: []string{b.addr}, Timeout: timeout, Dial: u.cable.Dial, Retry: policy,
		Logger: slog.New(slog.NewTextHandler(lines{b.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(b.t, err)
	b.t.Cleanup(u.Close)
	return u
}

// waitLimit is how long a test waits for anything.
const waitLimit = 20 * time.Second

// limited returns a context for calls that wait.
func (b *bench) limited() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), waitLimit)
	b.t.Cleanup(cancel)
	return ctx
}

// next receives from a channel.
func next[T any](b *bench, from <-chan T) (value T) {
	b.t.Helper()
	select {
	case value = <-from:
	case <-b.limited().Done():
		require.FailNow(b.t, "waited too long", "for a %T", value)
	}
	return value
}

// together runs the members of a recipe at the same time. The first error of one ends
// the context of the others, as a limit does; all errors are reported.
func (b *bench) together(members ...func(ctx context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.limited())
	defer cancel()
	errs := make([]error, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() {
			if errs[i] = member(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		require.NoError(b.t, err, "member %d", i)
	}
}

// until waits for a claim to become true.
func (b *bench) until(what string, claim func() bool) {
	b.t.Helper()
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !claim() {
		select {
		case <-look.C:
		case <-limit.C:
			require.FailNow(b.t, "waited too long", "for %s", what)
		}
	}
}

// names lists what is below a path of the bench.
func (b *bench) names(u *user, path string) []string {
	b.t.Helper()
	names, err := u.Children(b.t.Context(), b.path+path)
	if errors.Is(err, zklatch.ErrNoNode) {
		return nil
	}
	require.NoError(b.t, err)
	return names
}

// log notes things in their order.
type log struct {
	mu   sync.Mutex
	said []string
}

func (l *log) say(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, what)
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.said...)
}

// lines writes a log into the test's.
type lines struct{ t testing.TB }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}
