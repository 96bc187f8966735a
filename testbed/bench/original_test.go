package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A figure of the original under a name that no figure has would never be shown.
// Some names are put together from two parts.
func TestOriginals_AreNamesOfFigures(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var source strings.Builder
	for _, file := range files {
		if !strings.HasPrefix(file, "original") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
	}
	named := func(s string) bool { return s == "" || strings.Contains(source.String(), `"`+s+`"`) }
	for name := range originals {
		found := false
		for i := range name {
			found = found || named(name[:i]) && named(name[i:])
		}
		assert.True(t, found, name)
	}
}
