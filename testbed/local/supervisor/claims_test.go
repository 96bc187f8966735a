package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Without a usable folder, a port can be claimed if no process listens on it.
func TestClaimsTake_FolderCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	dangling, file := filepath.Join(dir, "dangling"), filepath.Join(dir, "file")
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), dangling))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, folder := range []string{dangling, file, filepath.Join(dir, "missing", "folder")} {
		c, took := &claims{dir: folder}, make(chan bool, 1)
		go func() { took <- c.take(29_871) }()
		select {
		case <-took:
			assert.Empty(t, c.files, folder)
			c.release()
		case <-time.After(5 * time.Second):
			assert.Fail(t, "take does not return", folder)
		}
	}
}
