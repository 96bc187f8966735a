package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"conclave/internal/long"
)

// Server is a ZooKeeper for one test.
type Server struct {
	Addr string // host:port
	Path string // only this test writes below it; does not exist yet
}

// Tick is the server's tick. The shortest session is two ticks, and sessions
// expire up to one tick late.
const Tick = 200 * time.Millisecond

// Longest is the longest session that the server grants. A client that requests
// more gets this; zklatch.Session.Timeout has the granted timeout.
const Longest = 20 * Tick

// startTimeout is how long a server may take to start.
const startTimeout = 90 * time.Second

// shared is the server of this binary; it is started once.
var shared struct {
	sync.Mutex
	looked    bool
	addr      string
	container string // its id, if this process has started it
	err       error  // why there is none
	tests     int
}

// errNamed: ZOOKEEPER_ADDR names a server that cannot be used. The test fails
// and is not skipped.
var errNamed = errors.New("the server that ZOOKEEPER_ADDR names cannot be used")

// New returns the server with a path for the test. If there is no server, the
// test is skipped with a message, or fails.
func New(t testing.TB) Server {
	t.Helper()
	if !long.All() {
		t.Skip("a real ZooKeeper is not requested: set TEST_ALL=1 to run this test on one")
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.looked {
		shared.looked = true
		began := time.Now()
		if shared.err = find(); shared.err == nil {
			fmt.Printf("zktest: %s at %s, ready after %.1f s\n", version(shared.addr), shared.addr, time.Since(began).Seconds())
		}
	}
	switch err := shared.err; {
	case errors.Is(err, errNamed), err != nil && os.Getenv("REQUIRE_DOCKER") == "1":
		t.Fatalf("no ZooKeeper: %v", err)
	case err != nil:
		t.Skipf("no ZooKeeper here: %v", err)
	}
	shared.tests++
	return Server{Addr: shared.addr, Path: fmt.Sprintf("/conclave-test/%d-%d-%d", os.Getpid(), time.Now().UnixNano(), shared.tests)}
}

// find connects to the server that is named, or runs a container. The caller
// has locked shared.
func find() error {
	if addr := os.Getenv("ZOOKEEPER_ADDR"); addr != "" {
		shared.addr = addr
		if err := reach(addr, 10*time.Second); err != nil {
			return fmt.Errorf("%w: %w", errNamed, err)
		}
		return nil
	}
	var err error
	if shared.container, shared.addr, err = run(); err != nil {
		return err
	}
	return reach(shared.addr, startTimeout)
}

// reach waits until a server answers.
func reach(addr string, limit time.Duration) error {
	for began := time.Now(); ; {
		if version(addr) != "" {
			return nil
		}
		if time.Since(began) > limit {
			return fmt.Errorf("no ZooKeeper answers at %s within %v", addr, limit)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// version returns the first line of the answer to srvr, which is allowed by
// default; empty if the server does not answer.
func version(addr string) string {
	line, _, _ := strings.Cut(ask(addr, "srvr"), "\n")
	if !strings.HasPrefix(line, "Zookeeper version") {
		return ""
	}
	return line
}

// ask sends one of the server's four-letter commands and returns the answer;
// empty if there is none.
func ask(addr, command string) string {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte(command)); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(conn) // until the server closes the connection
	return string(answer)
}

// Watches returns the number of watches on the server. If the server does not
// allow the command wchs, the test is skipped.
func (s Server) Watches(t testing.TB) int {
	t.Helper()
	var connections, paths, watches int
	answer := ask(s.Addr, "wchs")
	if _, err := fmt.Sscanf(answer, "%d connections watching %d paths\nTotal watches:%d", &connections, &paths, &watches); err != nil {
		t.Skipf("the server at %s does not report its watches (set 4lw.commands.whitelist=srvr,wchs): %q", s.Addr, answer)
	}
	return watches
}

// Main runs the tests, removes the server if this process has started it, and
// checks that no goroutine is left. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if shared.container != "" {
		if _, err := docker("rm", "--force", "--volumes", shared.container); err != nil {
			fmt.Fprintln(os.Stderr, "zktest:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goleak:", err)
			code = 1
		}
	}
	os.Exit(code)
}
