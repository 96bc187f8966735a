package data

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A row of a list is in memory while it is written, so a datum does not make it large.
func TestFirstValues_AreBounded(t *testing.T) {
	value := strings.Repeat("x", 1000)
	assert.Len(t, firstValues([]string{value, value, value}, 3000), 3)
	assert.Len(t, firstValues([]string{value, value, value}, 2999), 2)
	assert.Empty(t, firstValues([]string{value}, 999))
	assert.Empty(t, firstValues(nil, 999))
}
