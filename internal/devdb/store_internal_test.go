package devdb

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However many changes a file has, the newest of each table is loaded: otherwise a
// server that has run for long would take longer than a lease to start.
func TestReadParts_NewestChangeOfEachTable(t *testing.T) {
	lock := tableText{database: "`a`", name: "`lock`"}
	state := tableText{database: "`b`", name: "`lock`"}
	text := part("CREATE TABLE ...;\n")
	for i := range 2000 {
		lock.rows = strings.Repeat("INSERT ...;\n", i%3)
		state.rows = "INSERT '\\nUSE `a`;\\n-- conclave devdb 2 ';\n"
		text += part(lock.change() + state.change())
	}
	all, err := readParts(text)
	require.NoError(t, err)
	assert.Equal(t, "CREATE TABLE ...;\n"+lock.change()+state.change(), all)

	last := strings.LastIndex(text, "\n"+partHeader) + 1
	for _, cut := range []int{last + 3, len(text) - 5} { // a value has the header's text
		_, err = readParts(text[:cut])
		assert.NoError(t, err)
	}
	_, err = readParts(text[:len(text)-5] + "+++++")
	assert.ErrorIs(t, err, errDamaged, "the last part was written, and changed since")
}
