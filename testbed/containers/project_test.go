package containers_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/containers"
)

func project(t *testing.T, change func(*containers.ProjectConfig)) *containers.Project {
	t.Helper()
	c := containers.ProjectConfig{Name: "p", Dir: t.TempDir()}
	if change != nil {
		change(&c)
	}
	p, err := containers.NewProject(c)
	require.NoError(t, err)
	return p
}

func TestNew_InvalidConfig(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  containers.ProjectConfig
		want string
	}{
		"no name":     {containers.ProjectConfig{}, `project name ""`},
		"capitals":    {containers.ProjectConfig{Name: "Demo"}, `project name "Demo"`},
		"a dash":      {containers.ProjectConfig{Name: "-x"}, `project name "-x"`},
		"environment": {containers.ProjectConfig{Name: "x", Env: []string{"A"}}, `environment "A" of project x`},
	} {
		_, err := containers.NewProject(c.cfg)
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestError_HasTheLastLineOfStderr(t *testing.T) {
	fakeEngine(t, "ps", "echo abc", "kill", "echo 'warning: old' >&2; echo 'Error: container abc is not running' >&2; exit 1")
	err := project(t, nil).Signal(t.Context(), "meta-1", "KILL")
	assert.EqualError(t, err, "kill meta-1: docker kill --signal KILL abc: exit status 1: Error: container abc is not running")
}

func TestErrNoDocker(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	assert.ErrorIs(t, containers.Available(t.Context()), containers.ErrNoDocker)
	assert.ErrorIs(t, project(t, nil).Down(t.Context()), containers.ErrNoDocker)

	fakeEngine(t, "compose", "exit 125")
	err := containers.Available(t.Context())
	require.ErrorIs(t, err, containers.ErrNoDocker)
	assert.ErrorContains(t, err, "docker has no plugin compose: install it")
}

func TestCall_EndsWithItsContext(t *testing.T) {
	fakeEngine(t, "ps", "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := project(t, nil).Pause(ctx, "db")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 30*time.Second, "less than the 60 s of the program")
}

func TestStart_NamesServiceWithoutContainer(t *testing.T) {
	fakeEngine(t, "ps", "true")
	err := project(t, nil).Start(t.Context(), "meta-9")
	assert.ErrorIs(t, err, containers.ErrNoContainer)
	assert.ErrorContains(t, err, `start meta-9: no such container: project p has 0 containers of service "meta-9"`)
}

// left makes docker list leftovers until they were removed.
var left = []string{
	"ps --quiet", `[ -e "$0.gone" ] || echo frozen`,
	"ps --all", `[ -e "$0.gone" ] || echo frozen half-made`,
	"network ls", `[ -e "$0.gone" ] || echo n1`,
	"volume ls", `[ -e "$0.gone" ] || echo v1`,
	"volume rm", `touch "$0.gone"`,
}

func TestDown_RemovesLeftoversInAnyState(t *testing.T) {
	e := fakeEngine(t, left...)
	p := project(t, nil)
	require.NoError(t, p.Down(t.Context()))
	var done []string
	for _, line := range e.asked() {
		if !strings.Contains(line, "--filter") {
			done = append(done, line)
		}
	}
	assert.Equal(t, []string{"unpause frozen", "rm --force --volumes frozen half-made", "network rm n1", "volume rm v1"}, done)
	asked := len(e.asked())
	require.NoError(t, p.Down(t.Context()), "again")
	assert.Len(t, e.asked(), asked+4, "it only lists")
}

func TestUp_RemovesLeftoversFirst(t *testing.T) {
	e := fakeEngine(t, left...)
	p := project(t, func(c *containers.ProjectConfig) { c.Services = []string{"db", "meta-1"} })
	require.NoError(t, p.Up(t.Context()))
	asked := strings.Join(e.asked(), "\n")
	removed, up := strings.Index(asked, "rm --force"), strings.Index(asked, "compose --project-name p --file docker-compose.yml")
	require.Positive(t, removed)
	assert.Greater(t, up, removed)
	assert.Contains(t, asked, "up --detach --no-build --remove-orphans db meta-1")
}

func TestDown_ReportsWhatCannotBeRemoved(t *testing.T) {
	fakeEngine(t, "ps --all", "echo stuck", "rm", "echo 'device busy' >&2; exit 1")
	err := project(t, nil).Down(t.Context())
	require.Error(t, err)
	assert.Contains(t, err.Error(), "device busy")
}

const inspectMeta = `cat <<'END'
[{"Id":"0123","State":{"Status":"running","ExitCode":0,"StartedAt":"2026-01-02T03:04:05.5Z","FinishedAt":"0001-01-01T00:00:00Z","Health":{"Status":"healthy"}},
"Config":{"Image":"conclave:local","Env":["CONCLAVE_META_LEASE=2s","A=b=c"],"Labels":{"com.docker.compose.service":"meta-1"}},
"NetworkSettings":{"Ports":{"9615/tcp":[{"HostIp":"127.0.0.1","HostPort":"49153"}],"53/udp":[{"HostIp":"","HostPort":"5"}]},
"Networks":{"p_cluster":{"IPAddress":"172.20.0.3","Aliases":["p-meta-1-1","meta-1","0123"]},"p_database":{"IPAddress":"172.21.0.3","Aliases":["meta-1","0123"]}}}}]
END`

func TestContainer_ReadsDockerInspect(t *testing.T) {
	fakeEngine(t, "ps", "echo 0123", "inspect", inspectMeta)
	c, err := project(t, nil).Container(t.Context(), "meta-1")
	require.NoError(t, err)
	assert.Equal(t, containers.Container{
		Service: "meta-1", ID: "0123", Image: "conclave:local", State: "running",
		Started: time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC), Env: map[string]string{"CONCLAVE_META_LEASE": "2s", "A": "b=c"}, Ports: map[string]string{"9615": "127.0.0.1:49153"},
		Networks: map[string]containers.NetworkMember{
			"p_cluster":  {IP: "172.20.0.3", Aliases: []string{"p-meta-1-1", "meta-1", "0123"}},
			"p_database": {IP: "172.21.0.3", Aliases: []string{"meta-1", "0123"}},
		},
	}, c)
}

func TestFind_MakesAddressesOfAnotherProcessKnown(t *testing.T) {
	fakeEngine(t, "ps", "true")
	_, err := project(t, nil).Find(t.Context())
	assert.ErrorIs(t, err, containers.ErrNoContainer)
	fakeEngine(t, "ps", "echo 0123", "inspect", inspectMeta)
	p := project(t, nil)
	assert.Empty(t, p.Published("meta-"))
	all, err := p.Find(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, []string{"127.0.0.1:49153"}, p.Published("meta-"))
}

func TestJoin_RestoresNamesAndAddress(t *testing.T) {
	e := fakeEngine(t, "ps", "echo 0123",
		"inspect", `if [ -e "$0.cut" ]; then echo '[{"Id":"0123","Config":{"Labels":{"com.docker.compose.service":"meta-1"}}}]'; else `+inspectMeta+"\nfi",
		"network disconnect", `touch "$0.cut"`)
	p := project(t, nil)
	require.NoError(t, p.Cut(t.Context(), "meta-1", "database"))
	require.NoError(t, p.Join(t.Context(), "meta-1", "database"))
	assert.Contains(t, e.asked(), "network disconnect p_database 0123")
	assert.Contains(t, e.asked(), "network connect --ip 172.21.0.3 --alias meta-1 p_database 0123")
	assert.ErrorContains(t, p.Cut(t.Context(), "meta-1", "database"), "not connected to that network")
}

func TestJoin_EngineChoosesAddressWhereItChoseTheSubnet(t *testing.T) {
	e := fakeEngine(t, "ps", "echo 0123",
		"inspect", `if [ -e "$0.cut" ]; then echo '[{"Id":"0123","Config":{"Labels":{"com.docker.compose.service":"meta-1"}}}]'; else `+inspectMeta+"\nfi",
		"network disconnect", `touch "$0.cut"`,
		"network connect --ip", "echo 'user specified IP address is supported only when connecting to networks with user configured subnets' >&2; exit 1")
	p := project(t, nil)
	require.NoError(t, p.Cut(t.Context(), "meta-1", "database"))
	require.NoError(t, p.Join(t.Context(), "meta-1", "database"))
	assert.Contains(t, e.asked(), "network connect --alias meta-1 p_database 0123")
}

func TestOutside_DialsAdvertisedAddresses(t *testing.T) {
	node, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer node.Close()
	published := node.Addr().String()
	_, port, _ := net.SplitHostPort(published)
	fakeEngine(t, "ps", "echo 0123", "inspect", strings.ReplaceAll(inspectMeta, "49153", port))
	p := project(t, nil)
	require.NoError(t, p.Start(t.Context(), "meta-1")) // reads the published ports
	assert.Equal(t, []string{published}, p.Published("meta-"))
	assert.Empty(t, p.Published("data-"))
	out := p.Outside()
	for _, advertised := range []string{"meta-1:9615", "172.20.0.3:9615", "p-meta-1-1:9615"} {
		conn, err := out.DialContext(t.Context(), "tcp", advertised)
		require.NoError(t, err, advertised)
		assert.Equal(t, published, conn.RemoteAddr().String(), advertised)
		conn.Close()
	}
}
