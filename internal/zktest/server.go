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
)

// Server is a ZooKeeper as one test sees it.
type Server struct {
	Addr string // host:port
	Path string // below which nobody else writes; not made yet
}

// Tick is the server's: sessions are granted from two of them on, and end up to one
// later than they could.
const Tick = 200 * time.Millisecond

// Longest is the longest session that it grants. Who asks for more gets this, and is
// told so in an answer that is easily overlooked: look at zklatch.Session.Timeout.
const Longest = 20 * Tick

// patience is how long a server may take to start.
const patience = 90 * time.Second

// shared is the server of this binary, looked for once.
var shared struct {
	sync.Mutex
	looked    bool
	addr      string
	container *container
	err       error // why there is none
	tests     int
}

// errNamed: ZOOKEEPER_ADDR names a server that cannot be used. Somebody meant it, so
// this fails and is never skipped.
var errNamed = errors.New("the server that ZOOKEEPER_ADDR names cannot be used")

// Wanted says whether a real server is asked for.
func Wanted() bool { return os.Getenv("TEST_ALL") == "1" }

// New is the server, with a path of the test's own. When there is none the test is
// skipped, aloud, or fails.
func New(t testing.TB) Server {
	t.Helper()
	if !Wanted() {
		t.Skip("a real ZooKeeper is not asked for: TEST_ALL=1 plays this test on one")
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

// find reaches the server that is named, or runs a container; shared is locked.
func find() error {
	if addr := os.Getenv("ZOOKEEPER_ADDR"); addr != "" {
		shared.addr = addr
		if err := reach(addr, 10*time.Second); err != nil {
			return fmt.Errorf("%w: %w", errNamed, err)
		}
		return nil
	}
	c, err := run()
	if err != nil {
		return err
	}
	if err := reach(c.addr, patience); err != nil {
		return errors.Join(fmt.Errorf("image %s: %w", c.image, err), c.remove())
	}
	shared.addr, shared.container = c.addr, c
	return nil
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

// version is what a server says of itself (the command srvr, which is on by default);
// empty when it does not answer.
func version(addr string) string {
	line, _, _ := strings.Cut(ask(addr, "srvr"), "\n")
	if !strings.HasPrefix(line, "Zookeeper version") {
		return ""
	}
	return line
}

// ask says one of the server's four-letter commands; empty: no answer.
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
	answer, _ := io.ReadAll(conn) // what came until it hung up
	return string(answer)
}

// Watches is how many watches are set on the server (the command wchs, which must be
// allowed); without it the test is skipped.
func (s Server) Watches(t testing.TB) int {
	t.Helper()
	var connections, paths, watches int
	answer := ask(s.Addr, "wchs")
	if _, err := fmt.Sscanf(answer, "%d connections watching %d paths\nTotal watches:%d", &connections, &paths, &watches); err != nil {
		t.Skipf("the server at %s does not count its watches (4lw.commands.whitelist=srvr,wchs lets it): %q", s.Addr, answer)
	}
	return watches
}

// Main runs the tests, ends the server if it is ours, and looks for goroutines that
// were left behind. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if shared.container != nil {
		if err := shared.container.remove(); err != nil {
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
