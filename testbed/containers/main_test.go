package containers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/internal/long"
	"conclave/testbed/containers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a program named docker with prepared answers that records its
// arguments. It gives the first answer whose key is a prefix of the arguments.
type engine struct {
	t   *testing.T
	dir string
}

// fakeEngine installs it as the first docker in PATH.
func fakeEngine(t *testing.T, answers ...string) *engine {
	e := &engine{t: t, dir: t.TempDir()}
	var script strings.Builder
	fmt.Fprintf(&script, "#!/bin/sh\nprintf '%%s\\n' \"$*\" >> %s/asked\ncase \"$*\" in\n", e.dir)
	for i := 0; i+1 < len(answers); i += 2 {
		fmt.Fprintf(&script, "%q*)\n%s\n;;\n", answers[i], answers[i+1])
	}
	script.WriteString("esac\n")
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, "docker"), []byte(script.String()), 0o755))
	t.Setenv("PATH", e.dir+":"+os.Getenv("PATH"))
	return e
}

// asked returns the arguments of all calls so far.
func (e *engine) asked() []string {
	b, err := os.ReadFile(filepath.Join(e.dir, "asked"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(e.t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// needsDocker skips the test if docker or the image is missing, or fails it
// with REQUIRE_DOCKER=1.
func needsDocker(t *testing.T) {
	t.Helper()
	if !long.All() {
		t.Skip("containers are started with TEST_ALL=1 only")
	}
	missing := func(format string, args ...any) {
		t.Helper()
		if os.Getenv("REQUIRE_DOCKER") == "1" {
			require.FailNow(t, fmt.Sprintf(format, args...))
		}
		t.Skipf("SKIPPED: "+format, args...)
	}
	if err := containers.Available(context.Background()); err != nil {
		missing("no docker compose: %v", err)
	}
	image := os.Getenv("CONCLAVE_IMAGE")
	if image == "" {
		image = "conclave:local"
	}
	if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
		missing("no image %s: build it with `make image`", image)
	}
}
