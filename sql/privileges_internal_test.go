package sql

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What EnsureUser grants is what the page says.
func TestEnsureUser_GrantsWhatThePageSays(t *testing.T) {
	page, err := os.ReadFile("../docs/databases.md")
	require.NoError(t, err)
	var grants []string
	for _, grant := range runtimeGrants {
		grants = append(grants, userText("conclave", "conclave").Replace(grant)+";")
	}
	page = regexp.MustCompile(`(?m)^(GRANT .* ON )conclave\.`).ReplaceAll(page, []byte("$1`conclave`."))
	assert.Equal(t, grants, regexp.MustCompile(`(?m)^GRANT .* TO 'conclave'@'%';$`).FindAllString(string(page), -1))
}
