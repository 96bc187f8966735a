package mysqltest

import (
	stdsql "database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

// startTimeout is how long a server may take to start.
const startTimeout = 5 * time.Minute

// host is a real server, shared by the tests of this binary.
type host struct {
	version   string
	config    *mysql.Config // of the administrator's connections
	root      *stdsql.DB
	container *container // nil if a DSN names the server
}

// started has what this binary has started, by kind; each is started once. Those of
// several kinds may be started at the same time.
type started[T any] struct {
	mu    sync.Mutex // guards kinds, not what is in them
	kinds map[Kind]*attempt[T]
}

// attempt is the one attempt to start a kind.
type attempt[T any] struct {
	once  sync.Once
	found T
	err   error // why there is none
}

// hosts are the single servers.
var hosts started[*host]

// of returns the attempt for a kind.
func (s *started[T]) of(kind Kind) *attempt[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[Kind]*attempt[T]{}
	}
	if s.kinds[kind] == nil {
		s.kinds[kind] = &attempt[T]{}
	}
	return s.kinds[kind]
}

// find returns what was started of a kind. The first test that needs it starts it,
// and says what it is; if that fails, it is not tried again. It skips or fails the
// test as New does.
func (s *started[T]) find(t testing.TB, kind Kind, start func(Kind) (T, error), what func(T) string) T {
	t.Helper()
	if !wanted(kind) {
		t.Skipf("%s is not requested: TEST_ALL=1 runs this test on real servers, TEST_SERVERS chooses some", kind)
	}
	a := s.of(kind)
	a.run(kind, start, what)
	switch {
	case errors.Is(a.err, errNamed):
		t.Fatal(a.err)
	case a.err != nil:
		missing(t, fmt.Sprintf("no %s here: %v", kind, a.err))
	}
	return a.found
}

// run starts the kind, or waits until it is started.
func (a *attempt[T]) run(kind Kind, start func(Kind) (T, error), what func(T) string) {
	a.once.Do(func() {
		began := time.Now()
		if a.found, a.err = start(kind); a.err == nil {
			fmt.Printf("mysqltest: %s is %s, ready after %.1f s\n", kind, what(a.found), time.Since(began).Seconds())
		}
	})
}

// end calls closes for each that was started. No test is running any more.
func (s *started[T]) end(closes func(T) error) (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, a := range s.kinds {
		if a.err == nil {
			errs = append(errs, closes(a.found))
		}
		delete(s.kinds, kind)
	}
	return errs
}

// errNamed: a DSN names a server that cannot be used. The test fails and is not
// skipped.
var errNamed = errors.New("the named server cannot be used")

// Main runs the tests, removes the servers that they have started, and checks
// that no goroutine is left. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, "mysqltest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goleak:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// end closes what find has started.
func end() error {
	return errors.Join(append(hosts.end((*host).close), replicas.end((*Replicas).remove)...)...)
}

// close closes the connections, and removes the server if this process has
// started it.
func (h *host) close() error {
	err := h.root.Close()
	if h.container != nil {
		err = errors.Join(err, h.container.remove())
	}
	return err
}

// find returns the server of a kind.
func find(t testing.TB, kind Kind) *host {
	t.Helper()
	return hosts.find(t, kind, start, (*host).String)
}

// startAll starts those of the servers that are missing, at the same time.
func startAll(kinds []Kind) {
	var starting sync.WaitGroup
	for _, kind := range slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !wanted(k) }) {
		starting.Go(func() { hosts.of(kind).run(kind, start, (*host).String) })
	}
	starting.Wait()
}

// String returns what the server is, for a message.
func (h *host) String() string { return h.version + ", " + h.from() }

// missing skips the test, or fails it with REQUIRE_DOCKER=1.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("REQUIRE_DOCKER") == "1" {
		t.Fatalf("%s (not skipped because of REQUIRE_DOCKER=1)", what)
	}
	t.Skip(what)
}

// from returns where the server comes from, for a message.
func (h *host) from() string {
	if h.container == nil {
		return "named by a DSN"
	}
	return "image " + h.container.image
}

// start connects to the server that is named, or runs a container.
func start(kind Kind) (*host, error) {
	name := strings.ToUpper(string(kind)) + "_DSN"
	if dsn := os.Getenv(name); dsn != "" {
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, fmt.Errorf("%w: %s cannot be parsed (want user:password@tcp(host:port)/)", errNamed, name)
		}
		h, err := reach(config, 10*time.Second)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errNamed, name, err)
		}
		return h, nil
	}
	c, err := run(kind)
	if err != nil {
		return nil, err
	}
	h, err := reach(c.config(), startTimeout)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", c.image, err), c.remove())
	}
	h.container = c
	return h, nil
}

// reach waits until a server answers, and reads its version.
func reach(config *mysql.Config, limit time.Duration) (*host, error) {
	root, err := open(config)
	if err != nil {
		return nil, err
	}
	h := &host{config: config, root: root}
	if err := ready(root, limit); err != nil {
		root.Close()
		return nil, err
	}
	if err := root.QueryRow("SELECT VERSION()").Scan(&h.version); err != nil {
		root.Close()
		return nil, fmt.Errorf("read its version: %w", err)
	}
	return h, nil
}
