package containers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/containers"
	"conclave/testbed/outside"
)

// up is a program named docker with a project of two nodes and their database, whose
// events are lines of the file events.
const up = `#!/bin/sh
echo "$*" >> "$0.asked"
container() {
	pid=7
	[ ! -e "$0.again" ] || pid=8
	[ $2 != exited ] || pid=0
	networks='"p_database":{}'
	[ ! -e "$0.cut" ] || networks=
	echo '{"Id":"'$1'","Config":{"Labels":{"com.docker.compose.service":"'$1'"}},"State":{"Status":"'$2'","ExitCode":'$3',"Pid":'$pid'},"NetworkSettings":{"Ports":{"9615/tcp":[{"HostIp":"127.0.0.1","HostPort":"4'$pid'"}]},"Networks":{'$networks'}}}'
}
case "$*" in
"network disconnect p_database meta-1") : > "$0.cut" ;;
"network connect"*" p_database meta-1") rm "$0.cut" ;;
*"container meta-1") echo "[$(container meta-1 running 0)]" ;;
ps*) echo meta-1 session-2 db migrate ;;
events*) exec tail -n +1 -f "$0.events" ;;
inspect*) echo "[$(container meta-1 running 0),$(container session-2 exited 137),$(container db paused 0),$(container migrate exited 0)]" ;;
esac
`

func attached(t *testing.T) (d *containers.Cluster, docker string) {
	docker = filepath.Join(t.TempDir(), "docker")
	require.NoError(t, os.WriteFile(docker, []byte(up), 0o755))
	require.NoError(t, os.WriteFile(docker+".events", nil, 0o644))
	t.Setenv("PATH", filepath.Dir(docker)+":"+os.Getenv("PATH"))
	project, err := containers.NewProject(containers.ProjectConfig{Name: "p", Dir: t.TempDir()})
	require.NoError(t, err)
	d, err = containers.Attach(t.Context(), project, outside.Access{Operator: "secret"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	return d, docker
}

func TestAttach_KnowsTheStatesThatTheEngineReports(t *testing.T) {
	d, docker := attached(t)
	eventually := func(name, state string, pid int, killed bool) {
		t.Helper()
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			states, err := d.States()
			assert.NoError(t, err)
			assert.Len(t, states, 3, "those of the nodes and of the database")
			got := states[name]
			assert.Equal(t, []any{state, pid, killed}, []any{got.State, got.PID, got.Killed()}, name)
		}, 30*time.Second, 10*time.Millisecond)
	}
	events, err := os.OpenFile(docker+".events", os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer events.Close()
	happens := func(action, service string, code int) {
		_, err := fmt.Fprintf(events, `{"Action":%q,"TimeNano":1,"Actor":{"Attributes":{"com.docker.compose.service":%q,"exitCode":"%d"}}}`+"\n", action, service, code)
		require.NoError(t, err)
	}
	eventually("meta-1", "running", 7, false)
	eventually("session-2", "exited", 0, true)
	eventually("db", "paused", 7, false)

	happens("pause", "meta-1", 0)
	eventually("meta-1", "paused", 7, false)
	happens("unpause", "meta-1", 0)
	eventually("meta-1", "running", 7, false)
	happens("die", "meta-1", 0)
	eventually("meta-1", "exited", 0, false)
	require.NoError(t, os.WriteFile(docker+".again", nil, 0o644))
	happens("start", "meta-1", 0)
	eventually("meta-1", "running", 8, false)
	cfg, err := d.ClientConfig("client-1")
	require.NoError(t, err)
	assert.Equal(t, "secret", cfg.Token)
	assert.Equal(t, testbed.Size{Metas: 1, Sessions: 1, Slots: 16}, d.Capabilities().Fit(testbed.Size{Metas: 3, Sessions: 2, Datas: 3, Slots: 16}), "that of the project")
}

// What was there before stays as it is.
func TestAttach_CloseLeavesTheProject(t *testing.T) {
	d, docker := attached(t)
	require.NoError(t, d.Close(t.Context()))
	asked, err := os.ReadFile(docker + ".asked")
	require.NoError(t, err)
	for _, change := range []string{"rm", "stop", "kill", "start", "unpause"} {
		assert.NotContains(t, string(asked), change+" ")
	}
}

// What was cut here is not cut for ever: no other process could end it.
func TestAttach_CloseEndsItsCuts(t *testing.T) {
	d, docker := attached(t)
	require.NoError(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Cut, Node: "meta-1", Peer: testbed.Database}))
	require.FileExists(t, docker+".cut")
	require.NoError(t, d.Close(t.Context()))
	assert.NoFileExists(t, docker+".cut")
}

// A console that runs for long replaces its clients again and again.
func TestAttach_ClosedClientFreesItsName(t *testing.T) {
	d, _ := attached(t)
	first, err := d.Client("client-1")
	require.NoError(t, err)
	_, err = d.Client("client-1")
	require.ErrorContains(t, err, "exists already")
	require.NoError(t, first.Close(t.Context()))
	_, err = d.Client("client-1")
	assert.NoError(t, err)
}
