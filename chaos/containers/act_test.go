package containers_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/chaos"
	"conclave/chaos/containers"
	"conclave/internal/compose"
)

// engine is a program named docker with one container, whose cables it keeps as files.
const engine = `#!/bin/sh
echo "$*" >> "$0.asked"
case "$*" in
ps*) echo 0123 ;;
inspect*)
	nets=
	for n in p_cluster p_database; do [ -e "$0.$n" ] || nets="$nets,\"$n\":{}"; done
	echo '[{"Id":"0123","State":{"Status":"running"},"NetworkSettings":{"Networks":{'"${nets#,}"'}}}]' ;;
"network disconnect "*) touch "$0.$3" ;;
"network connect "*p_database*) [ ! -e "$0.fails" ] || { echo "no way" >&2; exit 1; }; rm "$0.p_database" ;;
"network connect "*p_cluster*) [ ! -e "$0.fails" ] || { echo "no way" >&2; exit 1; }; rm "$0.p_cluster" ;;
esac
`

func TestACableIsTakenOutOnceAndPutBackInTheEnd(t *testing.T) {
	docker := filepath.Join(t.TempDir(), "docker")
	require.NoError(t, os.WriteFile(docker, []byte(engine), 0o755))
	t.Setenv("PATH", filepath.Dir(docker)+":"+os.Getenv("PATH"))
	project, err := compose.New(compose.Config{Name: "p", Dir: t.TempDir()})
	require.NoError(t, err)
	d := containers.New(containers.Config{
		Start: func(context.Context, chaos.Cluster) (*compose.Project, string, error) { return project, "", nil },
		End:   func(context.Context) error { return nil },
		Nodes: []string{"meta-1"},
	})
	require.NoError(t, d.Open(t.Context(), chaos.Cluster{Metas: 1}, nil))
	do := func(a chaos.Act) error { return d.Do(t.Context(), a) }
	asked := func(words string) int {
		text, err := os.ReadFile(docker + ".asked")
		require.NoError(t, err)
		return strings.Count(string(text), words)
	}

	require.NoError(t, do(chaos.Act{Verb: chaos.Cut, Node: "meta-1", Peer: chaos.Database}))
	require.NoError(t, do(chaos.Act{Verb: chaos.Cut, Node: "meta-1", Peer: chaos.Database}), "what is done already is no error")
	require.NoError(t, do(chaos.Act{Verb: chaos.Cut, Node: "meta-1"}), "from everybody: the one that is left")
	assert.Equal(t, 2, asked("network disconnect"))

	require.NoError(t, os.WriteFile(docker+".fails", nil, 0o644))
	require.Error(t, do(chaos.Act{Verb: chaos.Mend, Node: "meta-1"}))
	require.NoError(t, os.Remove(docker+".fails"))
	require.NoError(t, do(chaos.Act{Verb: chaos.Mend, Node: "meta-1"}), "what could not be put back is not forgotten")
	assert.NoFileExists(t, docker+".p_cluster")
	assert.NoFileExists(t, docker+".p_database")
	require.NoError(t, do(chaos.Act{Verb: chaos.Mend, Node: "meta-1"}))
	require.NoError(t, d.Close(t.Context()))
}
