package mysqltest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The servers of this binary, which its tests share: each function starts those of its
// kind at the first call. Those of several kinds may be started at the same time.
var (
	hosts    = map[Kind]func() (*container, error){MySQL: once(MySQL, run), MariaDB: once(MariaDB, run)}
	replicas = map[Kind]func() (*Replicas, error){GroupReplication: once(GroupReplication, startReplicas), Galera: once(Galera, startReplicas)}
)

// running has what removes the servers that were started.
var running struct {
	sync.Mutex
	remove []func() error
}

// once returns a function that starts a kind at its first call. If that fails, it is not
// tried again.
func once[T interface {
	fmt.Stringer
	remove() error
}](kind Kind, start func(Kind) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		began := time.Now()
		found, err := start(kind)
		if err == nil {
			fmt.Printf("mysqltest: %s is %s, ready after %.1f s\n", kind, found, time.Since(began).Seconds())
			running.Lock()
			defer running.Unlock()
			running.remove = append(running.remove, found.remove)
		}
		return found, err
	})
}

// find returns the servers of a kind. If they are not requested, or cannot be started,
// the test is skipped or fails as New says.
func find[T any](t testing.TB, kind Kind, start func() (T, error)) T {
	t.Helper()
	if !wanted(kind) {
		t.Skipf("%s is not requested: TEST_ALL=1 runs this test on real servers, TEST_SERVERS chooses some", kind)
	}
	found, err := start()
	if err != nil {
		missing(t, fmt.Sprintf("no %s here: %v", kind, err))
	}
	return found
}

// Main runs the tests, removes the servers that they have started, and checks
// that no goroutine is left. It does not return.
func Main(m *testing.M) { goleak.VerifyTestMain(removing{m}) }

// removing are tests after which the servers are removed.
type removing struct{ tests *testing.M }

// Run returns the tests' exit code, or that of a failed removal.
func (r removing) Run() int {
	code := r.tests.Run()
	for _, remove := range running.remove { // no test is running any more
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "mysqltest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// startAll starts those of the single servers that are missing, at the same time.
func startAll() {
	var starting sync.WaitGroup
	for kind, start := range hosts {
		if wanted(kind) {
			starting.Go(func() { _, _ = start() }) // the test of the kind reports the error
		}
	}
	starting.Wait()
}

// missing skips the test, or fails it with REQUIRE_DOCKER=1.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("REQUIRE_DOCKER") == "1" {
		t.Fatalf("%s (not skipped because of REQUIRE_DOCKER=1)", what)
	}
	t.Skip(what)
}
