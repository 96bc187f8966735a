package mysqltest_test

import (
	stdsql "database/sql"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// pool opens the test's database.
func pool(t *testing.T, s *mysqltest.Server) *stdsql.DB {
	t.Helper()
	db, err := stdsql.Open("mysql", s.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestEach_HasItsOwnDatabase(t *testing.T) {
	for range 2 { // the second database does not have the first one's table
		mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
			assert.NotEmpty(t, s.Version)
			_, err := pool(t, s).Exec("CREATE TABLE mine (id int PRIMARY KEY)")
			require.NoError(t, err)
		})
	}
}

func TestPause_ServerDoesNotAnswerUntilResumed(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db := pool(t, s)
		require.NoError(t, db.Ping())
		resume := s.Pause(t)
		answered := make(chan error, 1)
		go func() { answered <- db.Ping() }()
		select {
		case err := <-answered:
			assert.Fail(t, "a paused server answered", "%v", err)
		case <-time.After(300 * time.Millisecond):
		}
		resume()
		assert.NoError(t, <-answered)
	})
}

func TestRestart_KeepsDataAndPort(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db := pool(t, s)
		_, err := db.Exec("CREATE TABLE kept (id int PRIMARY KEY)")
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO kept VALUES (7)")
		require.NoError(t, err)
		s.Restart(t)
		var id int
		require.NoError(t, db.QueryRow("SELECT id FROM kept").Scan(&id))
		assert.Equal(t, 7, id)
	})
}

// TestMissingServer_IsNamed runs this test binary again without any servers.
func TestMissingServer_IsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		passes bool
		want   []string
	}{
		{"not requested", nil, true, []string{"--- SKIP: TestSample/mysql", "mysql is not requested: TEST_ALL=1", "--- SKIP: TestSample/mariadb"}},
		{"no engine", []string{"TEST_ALL=1", "DOCKER_HOST=tcp://127.0.0.1:1"}, true,
			[]string{"--- SKIP: TestSample/mysql", "no mysql here: no Docker engine answers at tcp://127.0.0.1:1", "--- SKIP: TestSample/mariadb", "--- PASS: TestSample/embedded"}},
		{"no engine, but required", []string{"TEST_ALL=1", "DOCKER_HOST=tcp://127.0.0.1:1", "REQUIRE_DOCKER=1"}, false,
			[]string{"--- FAIL: TestSample/mysql", "no Docker engine answers", "not skipped because", "--- FAIL: TestSample/mariadb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			again := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestSample$")
			again.Env = append(without(os.Environ(), "TEST_ALL", "TEST_SERVERS", "REQUIRE_DOCKER", "DOCKER_HOST"), append(c.env, sampleEnv+"=1")...)
			out, err := again.CombinedOutput()
			assert.Equal(t, c.passes, err == nil, "%v\n%s", err, out)
			for _, text := range c.want {
				assert.Contains(t, string(out), text)
			}
		})
	}
}

// sampleEnv enables TestSample.
const sampleEnv = "MYSQLTEST_SAMPLE"

// TestSample is run by TestMissingServer_IsNamed and otherwise does nothing.
func TestSample(t *testing.T) {
	if os.Getenv(sampleEnv) == "" {
		return
	}
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) { require.NoError(t, pool(t, s).Ping()) })
}

// without returns the environment without some variables.
func without(env []string, names ...string) (rest []string) {
	for _, entry := range env {
		keep := true
		for _, name := range names {
			keep = keep && len(entry) > len(name) && entry[:len(name)+1] != name+"="
		}
		if keep {
			rest = append(rest, entry)
		}
	}
	return rest
}
