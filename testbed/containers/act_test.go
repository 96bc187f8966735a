package containers_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/containers"
	"conclave/testbed/outside"
	"conclave/testbed/scenario"
)

// oneContainer is a program named docker with one container. Its state is in files.
const oneContainer = `#!/bin/sh
echo "$*" >> "$0.asked"
case "$*" in
ps*) echo 0123 ;;
events*) [ ! -e "$0.killed" ] || cat "$0.killed"; exec sleep 60 ;;
logs*) echo "ready for connections" ;;
kill*TERM*) ;;
kill*) touch "$0.dead"; rm -f "$0.frozen" ;;
pause*) touch "$0.frozen" ;;
unpause*) rm "$0.frozen" ;;
start*) [ ! -e "$0.fails" ] || { echo "no way" >&2; exit 1; }; rm -f "$0.dead" "$0.p_cluster" ;;
inspect*)
	nets=
	for n in p_cluster p_database; do [ -e "$0.$n" ] || nets="$nets,\"$n\":{}"; done
	state=running
	[ ! -e "$0.dead" ] || state=exited
	[ ! -e "$0.frozen" ] || state=paused
	echo '[{"Id":"0123","Config":{"Labels":{"com.docker.compose.service":"'$(cat "$0.service" 2>/dev/null)'"}},"State":{"Status":"'$state'","Pid":'$(cat "$0.pid" 2>/dev/null || echo 7)',"FinishedAt":"2026-01-02T03:04:05.5Z"},"NetworkSettings":{"Networks":{'"${nets#,}"'}}}]' ;;
"network disconnect "*) touch "$0.$3" ;;
"network connect "*p_database*) [ ! -e "$0.fails" ] || { echo "no way" >&2; exit 1; }; rm "$0.p_database" ;;
"network connect "*p_cluster*) [ ! -e "$0.fails" ] || { echo "no way" >&2; exit 1; }; rm "$0.p_cluster" ;;
esac
`

// driver opens a driver for a project of that engine; asked counts the calls of
// the engine that contain the words.
func driver(t *testing.T, events ...string) (d *containers.Cluster, docker string, asked func(words string) int) {
	docker = filepath.Join(t.TempDir(), "docker")
	require.NoError(t, os.WriteFile(docker, []byte(oneContainer), 0o755))
	for _, event := range events {
		require.NoError(t, os.WriteFile(docker+".killed", []byte(event), 0o644))
	}
	t.Setenv("PATH", filepath.Dir(docker)+":"+os.Getenv("PATH"))
	project, err := containers.NewProject(containers.ProjectConfig{Name: "p", Dir: t.TempDir()})
	require.NoError(t, err)
	d = containers.New(containers.Config{
		Dir: t.TempDir(),
		Start: func(_ context.Context, _ testbed.Size, _ []string, file string) (*containers.Project, outside.Access, error) {
			assert.FileExists(t, file)
			return project, outside.Access{}, nil
		},
		End: func(context.Context) error { return nil },
	})
	require.NoError(t, d.Open(t.Context(), ordinary, nil))
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	return d, docker, func(words string) int {
		text, err := os.ReadFile(docker + ".asked")
		require.NoError(t, err)
		return strings.Count(string(text), words)
	}
}

var ordinary = testbed.Size{Metas: 3, Sessions: 2, Datas: 3, Slots: 16, Replicas: 2, Takeover: "witness", Lease: 3 * time.Second}

func TestCut_DisconnectsOnceAndMendReconnects(t *testing.T) {
	d, docker, asked := driver(t)
	do := func(a testbed.Action) error { return d.Do(t.Context(), a) }

	require.NoError(t, do(testbed.Action{Verb: testbed.Cut, Node: "meta-1", Peer: testbed.Database}))
	require.NoError(t, do(testbed.Action{Verb: testbed.Cut, Node: testbed.Database, Peer: "meta-1"}), "a repeated cut is no error")
	require.NoError(t, do(testbed.Action{Verb: testbed.Cut, Node: "meta-1"}), "from everyone: only the network that is left")
	assert.Equal(t, 2, asked("network disconnect"))

	require.NoError(t, do(testbed.Action{Verb: testbed.Mend, Node: "meta-1", Peer: testbed.Database}))
	assert.NoFileExists(t, docker+".p_database")
	assert.FileExists(t, docker+".p_cluster", "only the named link is mended")
	require.ErrorIs(t, do(testbed.Action{Verb: testbed.Mend, Node: "meta-1", Peer: "data-1"}), testbed.ErrUnsupported)

	require.NoError(t, os.WriteFile(docker+".fails", nil, 0o644))
	require.Error(t, do(testbed.Action{Verb: testbed.Mend, Node: "meta-1"}))
	require.NoError(t, os.Remove(docker+".fails"))
	require.NoError(t, do(testbed.Action{Verb: testbed.Mend, Node: "meta-1"}), "a failed mend can be repeated")
	assert.NoFileExists(t, docker+".p_cluster")
	require.NoError(t, do(testbed.Action{Verb: testbed.Mend, Node: "meta-1"}))
}

// Nothing is stopped before what depends on it.
func TestStop_StopsEachRoleBeforeThoseItDependsOn(t *testing.T) {
	d, docker, _ := driver(t)
	require.NoError(t, d.Stop(t.Context()))
	text, err := os.ReadFile(docker + ".asked")
	require.NoError(t, err)
	assert.Equal(t, 9, strings.Count(string(text), "stop --"), string(text))
}

// The services that make the secrets and migrate end by themselves, and are no
// node's processes.
func TestProcesses_AreThoseOfNodesAndDatabase(t *testing.T) {
	d, docker, _ := driver(t)
	for service, want := range map[string]int{"meta-1": 1, testbed.Database: 1, "secrets": 0, "migrate": 0} {
		require.NoError(t, os.WriteFile(docker+".service", []byte(service), 0o644))
		all, err := d.Processes(t.Context())
		require.NoError(t, err)
		assert.Len(t, all, want, service)
	}
}

// The engine connects a container without networks when it starts, so the
// driver disconnects it again.
func TestStart_KeepsContainerDisconnected(t *testing.T) {
	d, docker, asked := driver(t)
	for _, a := range []testbed.Action{{Verb: testbed.Cut, Node: "data-1"}, {Verb: testbed.Kill, Node: "data-1"}, {Verb: testbed.Start, Node: "data-1"}} {
		require.NoError(t, d.Do(t.Context(), a))
	}
	assert.FileExists(t, docker+".p_cluster")
	assert.Equal(t, 2, asked("network disconnect p_cluster"))
	require.NoError(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Mend, Node: "data-1"}))
	assert.NoFileExists(t, docker+".p_cluster")
}

func TestStart_KillsNodeThatIsStillStopping(t *testing.T) {
	d, _, asked := driver(t)
	start := testbed.Action{Verb: testbed.Start, Node: "data-1"}
	require.NoError(t, d.Do(t.Context(), start), "it runs")
	assert.Zero(t, asked("start"))
	require.NoError(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Stop, Node: "data-1"}))
	require.NoError(t, d.Do(t.Context(), start))
	assert.Equal(t, 1, asked("kill --signal KILL"))
	assert.Equal(t, 1, asked("start"))
}

// The container that was asked to stop has ended, and others have started it again.
func TestStart_LeavesNodeThatWasReplacedWhileStopping(t *testing.T) {
	d, docker, asked := driver(t)
	require.NoError(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Stop, Node: "data-1"}))
	require.NoError(t, os.WriteFile(docker+".pid", []byte("8"), 0o644))
	require.NoError(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Start, Node: "data-1"}))
	assert.Zero(t, asked("KILL"))
}

// A paused container does not end when it is asked to stop, so a start kills
// it.
func TestStart_KillsNodeThatWasPausedWhileStopping(t *testing.T) {
	d, docker, asked := driver(t)
	do := func(v testbed.Verb) error { return d.Do(t.Context(), testbed.Action{Verb: v, Node: "data-1"}) }
	require.NoError(t, do(testbed.Pause))
	require.NoError(t, do(testbed.Start), "a paused container has not ended")
	assert.Zero(t, asked("start"))
	require.NoError(t, do(testbed.Stop))
	require.NoError(t, os.WriteFile(docker+".fails", nil, 0o644))
	require.ErrorContains(t, do(testbed.Start), "no way")
	assert.Equal(t, 1, asked("kill --signal KILL"))
	require.NoError(t, os.Remove(docker+".fails"))
	require.NoError(t, do(testbed.Start))
	assert.NoFileExists(t, docker+".dead")
	assert.Equal(t, 2, asked("start"))

	require.NoError(t, do(testbed.Start), "the new incarnation was not asked to stop")
	assert.Equal(t, 1, asked("kill --signal KILL"))
}

func TestEffectTime_ReturnsTimeOfEnginesEvent(t *testing.T) {
	died := time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC)
	event := `{"Action":%q,"TimeNano":%d,"Actor":{"Attributes":{"com.docker.compose.service":"data-1","signal":"%d"}}}` + "\n"
	d, _, _ := driver(t, fmt.Sprintf(event+event+event, "kill", died.UnixNano(), syscall.SIGKILL,
		"kill", died.Add(time.Minute).UnixNano(), syscall.SIGTERM, "die", died.UnixNano(), syscall.SIGKILL))
	kill := testbed.Action{Verb: testbed.Kill, Node: "data-1"}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.True(t, died.Equal(d.Capabilities().EffectTime(context.Background(), kill, died.Add(-time.Second))))
		assert.NotContains(t, d.Observe(context.Background()).Up, "data-1")
	}, 30*time.Second, 10*time.Millisecond)
	began := died.Add(time.Hour)
	assert.Equal(t, began, d.Capabilities().EffectTime(t.Context(), kill, began), "the end of an earlier incarnation")
}

// The overlay has the scenario's sizes and times and a folder for the trace
// files, from which Events reads the events.
// The soak's operator makes its client before the cluster is open.
func TestSecure_UsesCertificatesThatOpenHasFound(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	d := containers.New(containers.Config{
		Dir: t.TempDir(), End: func(context.Context) error { return nil },
		Start: func(context.Context, testbed.Size, []string, string) (*containers.Project, outside.Access, error) {
			return nil, outside.Access{TLS: func() *tls.Config {
				return server.Client().Transport.(*http.Transport).TLSClientConfig
			}}, errors.New("not today")
		},
	})
	web := &http.Client{Transport: d.Secure(&http.Transport{DisableKeepAlives: true})}
	require.Error(t, d.Open(t.Context(), ordinary, nil))
	res, err := web.Get("http://" + server.Listener.Addr().String())
	require.NoError(t, err)
	assert.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
}

func TestOpen_WritesOverlayAndTracesAreRead(t *testing.T) {
	dir := t.TempDir()
	read := func(c testbed.Size) (doc struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []struct{ Source, Target string }
		}
	}, nodes []string, d *containers.Cluster) {
		d = containers.New(containers.Config{Dir: dir, End: func(context.Context) error { return nil },
			Start: func(_ context.Context, _ testbed.Size, got []string, file string) (*containers.Project, outside.Access, error) {
				nodes = got
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(text, &doc))
				return nil, outside.Access{}, errors.New("not today")
			}})
		require.ErrorContains(t, d.Open(t.Context(), c, nil), "not today")
		return doc, nodes, d
	}
	large := ordinary
	large.Sessions, large.Datas, large.Slots = 3, 4, 64
	doc, nodes, d := read(large)
	assert.Len(t, nodes, 10)
	assert.Contains(t, nodes, "data-4")
	assert.Equal(t, "64", doc.Services["meta-2"].Environment["CONCLAVE_META_SLOTS"])
	assert.Equal(t, "3s", doc.Services["meta-2"].Environment["CONCLAVE_META_LEASE"])
	session := doc.Services["session-3"]
	assert.Equal(t, map[string]string{"CONCLAVE_SESSION_TRACE": "/trace/session-3.trace"}, session.Environment)
	require.Len(t, session.Volumes, 1)
	event := trace.Claim{Node: conclave.NodeID{Name: "session-3"}, Kind: trace.Emptying, Count: 2}
	file, err := os.Create(filepath.Join(session.Volumes[0].Source, "session-3.trace"))
	require.NoError(t, err)
	trace.To(file)(event)
	require.NoError(t, file.Close())
	var events []trace.Claim
	had, err := d.Events(func(_ time.Time, c trace.Claim) { events = append(events, c) })
	require.NoError(t, err)
	assert.True(t, had)
	assert.Equal(t, []trace.Claim{event}, events)

	small := ordinary
	small.Datas = 1
	assert.ErrorIs(t, containers.New(containers.Config{Dir: dir}).Open(t.Context(), small, nil), testbed.ErrUnsupported)
}

// Every seed gives a storm that can be played on containers.
func TestGround_AllowsEveryStormMadeForIt(t *testing.T) {
	ground := containers.Capabilities()
	cuts := 0
	for seed := range uint64(300) {
		s := scenario.Storm(seed, ground)
		require.Empty(t, s.Refusals(ground), s.String())
		for _, step := range s.Lines {
			if step.Step.Verb == testbed.Cut {
				cuts++
			}
		}
	}
	assert.Positive(t, cuts)
	for text, why := range map[string]string{
		"at 1s cut leader from db for 1s":                    "",
		"at 1s cut db from metas for 1s":                     "",
		"at 1s mend data-1 from everyone":                    "",
		"at 1s mend data-1 from session-1":                   "mend data-1 from session-1",
		"at 1s cut leader from the rest for 1s":              "from everyone",
		"at 1s twin data-1":                                  "twin",
		"cluster 3 meta 2 session 1 data 4 slots 1 replicas": "a cluster of 3 metas, 2 sessions and 1 data nodes",
	} {
		s, err := scenario.Parse("scenario.txt", text+"\nuntil 2s\n")
		require.NoError(t, err, text)
		if refused := strings.Join(s.Refusals(ground), "; "); why == "" {
			assert.Empty(t, refused, text)
		} else {
			assert.Contains(t, refused, why, text)
		}
	}
}
