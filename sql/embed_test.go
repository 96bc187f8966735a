package sql

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatements_HaveComments(t *testing.T) {
	require.NoError(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(text), "-- "), "%s must begin with a comment", path)
		sent := statement(path)
		assert.NotEmpty(t, sent, path)
		assert.NotContains(t, sent, "--", "%s: comments must not be sent", path)
		assert.NotContains(t, sent, ";", "%s must be one statement", path)
		if strings.HasPrefix(sent, "UPDATE ") || strings.HasPrefix(sent, "DELETE ") {
			assert.Contains(t, sent, "WHERE", path)
		}
		return nil
	}))
}

func TestSchemaFiles_NumberedWithoutGaps(t *testing.T) {
	for i, m := range migrations() {
		assert.Equal(t, i, m.version, m.path)
	}
	assert.Equal(t, len(migrations())-1, SchemaVersion())
}
