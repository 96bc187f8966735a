package check

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInvariants_ReadAsInArchitecture checks that ARCHITECTURE.md states each
// invariant in the words of its checker.
func TestInvariants_ReadAsInArchitecture(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	stated := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (I\d+) \| ([^|]+) \|`).FindAllStringSubmatch(string(page), -1) {
		stated[row[1]] = row[2]
	}
	checked := map[string]string{}
	for _, c := range allCheckers() {
		if strings.HasPrefix(c.id, "I") {
			checked[c.id] = c.title
		}
	}
	assert.Equal(t, checked, stated)
}
