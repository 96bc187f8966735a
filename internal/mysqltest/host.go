package mysqltest

import (
	stdsql "database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

// patience is how long a server may take to start.
const patience = 5 * time.Minute

// host is a real server, shared by the tests of this binary.
type host struct {
	version   string
	config    *mysql.Config // its administrator's
	root      *stdsql.DB
	container *container // nil when a DSN named the server
}

// hosts are the servers of this binary by kind, each looked for once.
var hosts = struct {
	sync.Mutex
	found map[Kind]*host
	why   map[Kind]error // why there is none
}{found: map[Kind]*host{}, why: map[Kind]error{}}

// errNamed: a DSN names a server that cannot be used. Somebody meant it, so this
// fails and is never skipped.
var errNamed = errors.New("the server that is named cannot be used")

// Main runs the tests, ends the servers that they have started, and looks for
// goroutines that were left behind. It does not return.
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

// end closes what find has opened.
func end() error {
	hosts.Lock()
	defer hosts.Unlock()
	var errs []error
	for kind, h := range hosts.found {
		errs = append(errs, h.close())
		delete(hosts.found, kind)
	}
	return errors.Join(errs...)
}

// close ends the way in, and the server if it is ours.
func (h *host) close() error {
	err := h.root.Close()
	if h.container != nil {
		err = errors.Join(err, h.container.remove())
	}
	return err
}

// find returns the server of a kind. It is looked for by the first test that wants
// it; whatever comes of that holds for all.
func find(t testing.TB, kind Kind) *host {
	t.Helper()
	if !Wanted() {
		t.Skipf("%s is not asked for: TEST_ALL=1 plays this test on real servers", kind)
	}
	hosts.Lock()
	defer hosts.Unlock()
	if hosts.found[kind] == nil && hosts.why[kind] == nil {
		began := time.Now()
		h, err := start(kind)
		if err != nil {
			hosts.why[kind] = err
		} else {
			hosts.found[kind] = h
			fmt.Printf("mysqltest: %s is %s, %s, ready after %.1f s\n", kind, h.version, h.from(), time.Since(began).Seconds())
		}
	}
	switch err := hosts.why[kind]; {
	case errors.Is(err, errNamed):
		t.Fatal(err)
	case err != nil:
		missing(t, fmt.Sprintf("no %s here: %v", kind, err))
	}
	return hosts.found[kind]
}

// missing skips the test, or fails it where nothing may be missing.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("REQUIRE_DOCKER") == "1" {
		t.Fatalf("%s (REQUIRE_DOCKER=1: it is not skipped)", what)
	}
	t.Skip(what)
}

// from says where the server comes from.
func (h *host) from() string {
	if h.container == nil {
		return "named by a DSN"
	}
	return "image " + h.container.image
}

// start reaches the server that is named, or runs a container.
func start(kind Kind) (*host, error) {
	name := strings.ToUpper(string(kind)) + "_DSN"
	if dsn := os.Getenv(name); dsn != "" {
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, fmt.Errorf("%w: %s cannot be read, want user:password@tcp(host:port)/", errNamed, name)
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
	h, err := reach(c.config(), patience)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", c.image, err), c.remove())
	}
	h.container = c
	return h, nil
}

// reach waits until a server answers, and asks who it is.
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
		return nil, fmt.Errorf("ask for its version: %w", err)
	}
	return h, nil
}
