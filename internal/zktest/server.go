package zktest

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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

// startTimeout is how long a server may take to start.
const startTimeout = 90 * time.Second

// shared returns the address of this binary's server, which the first call starts.
var shared = sync.OnceValues(func() (addr string, err error) {
	began := time.Now()
	limit := 10 * time.Second
	if addr = os.Getenv("ZOOKEEPER_ADDR"); addr == "" {
		limit = startTimeout
		if container, addr, err = run(); err != nil {
			return "", err
		}
	}
	if err := reach(addr, limit); err != nil {
		return "", err
	}
	fmt.Printf("zktest: %s at %s, ready after %.1f s\n", version(addr), addr, time.Since(began).Seconds())
	return addr, nil
})

// container is the id of the one that this process has started.
var container string

// tests counts the tests of this process, so that their paths differ.
var tests atomic.Int64

// New returns the server with a path for the test. If there is no server, the
// test is skipped with a message, or fails.
func New(t testing.TB) Server {
	t.Helper()
	if !long.All() {
		t.Skip("a real ZooKeeper is not requested: set TEST_ALL=1 to run this test on one")
	}
	addr, err := shared()
	switch {
	case err != nil && (os.Getenv("ZOOKEEPER_ADDR") != "" || os.Getenv("REQUIRE_DOCKER") == "1"):
		t.Fatalf("no ZooKeeper: %v", err)
	case err != nil:
		t.Skipf("no ZooKeeper here: %v", err)
	}
	return Server{Addr: addr, Path: fmt.Sprintf("/conclave-test/%d-%d-%d", os.Getpid(), time.Now().UnixNano(), tests.Add(1))}
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

// Main runs the tests, checks that no goroutine is left, and removes the server if this
// process has started it. It does not return.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if container != "" {
			if _, err := docker("rm", "--force", "--volumes", container); err != nil {
				fmt.Fprintln(os.Stderr, "zktest:", err)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
}
