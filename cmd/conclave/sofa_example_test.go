package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
)

// The example's consumer, which has a token, never misses a provider, and none of its calls
// fails, while nodes die.
func TestSofaExample_NoCallFails(t *testing.T) {
	if !long.All() {
		t.Log("only with TEST_ALL=1: real programs, which are fetched")
		return
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("SKIPPED: the example with SOFARegistry's client for Java: %v", err)
			return
		}
	}
	realPrograms(t)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", buildDir+"/", "conclave/cmd/conclave").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), "sh", "../../examples/sofa/run.sh")
	cmd.Env = append(os.Environ(), "BIN="+buildDir)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.Regexp(t, regexp.MustCompile(`^[1-9][0-9]{2,} calls, 0 failed; the list never had fewer than 2 of 2 providers$`), lines[len(lines)-1])
}
