package containers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/containers"
)

// The script compose/up checks an existing volume before it starts a database
// on it: MySQL cannot read the files of MariaDB, nor MariaDB those of MySQL.
func TestUpScript_RefusesFilesOfAnotherDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		volume, found string
		refused       string
	}{
		"no volume":          {"", "", ""},
		"an empty one":       {"p_db", "mysql", ""},
		"its own":            {"p_db", "mysql\nmysql", ""},
		"another database's": {"p_db", "mysql\nmariadb", "the volume p_db holds the files of a mariadb, which an-image, a mysql, cannot read; nothing was touched. Go on with them: make compose-up DB=mariadb."},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeEngine(t,
				"compose config", "echo 'name: p'",
				"volume ls", "echo "+c.volume,
				"run", "printf '"+c.found+"\\n'",
				"compose up", "true")
			cmd := exec.Command("sh", filepath.Join("..", "..", "compose", "up"))
			cmd.Env = append(os.Environ(), "DB_IMAGE=an-image")
			said, err := cmd.CombinedOutput()
			asked := e.asked()
			if c.refused == "" {
				require.NoError(t, err, string(said))
				assert.Contains(t, asked, "compose up --detach --wait --no-build --remove-orphans")
				return
			}
			require.Error(t, err)
			assert.Contains(t, string(said), c.refused)
			for _, line := range asked {
				assert.NotContains(t, line, "compose up")
				assert.NotContains(t, line, "unpause")
			}
		})
	}
}

func TestWatch_ReportsEvents(t *testing.T) {
	fakeEngine(t, "events", `echo '{"Action":"kill","TimeNano":1700000000000000005,"Actor":{"Attributes":{"com.docker.compose.service":"meta-1","signal":"9"}}}'
echo '{"Action":"die","TimeNano":1700000000000000007,"Actor":{"Attributes":{"com.docker.compose.service":"meta-1","exitCode":"137"}}}'
echo 'no JSON'`)
	var got []containers.Event
	err := project(t, nil).Watch(t.Context(), time.Unix(0, 0), func(e containers.Event) { got = append(got, e) })
	assert.ErrorContains(t, err, "docker events ended")
	assert.Equal(t, []containers.Event{
		{At: time.Unix(1700000000, 5), Service: "meta-1", Action: "kill", Signal: syscall.SIGKILL},
		{At: time.Unix(1700000000, 7), Service: "meta-1", Action: "die", Code: 137},
	}, got)

	e := fakeEngine(t, "events", "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // after docker events was started
		for ctx.Err() == nil && len(e.asked()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	assert.NoError(t, project(t, nil).Watch(ctx, time.Now(), func(containers.Event) {}), "ended by the context")
}
