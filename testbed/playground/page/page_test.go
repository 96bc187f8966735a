package page

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiles_TourHasItsLinesOfCode fails when a line of code in the tour is changed: the caption
// beside it may be wrong then.
func TestFiles_TourHasItsLinesOfCode(t *testing.T) {
	files, err := Files(os.DirFS("../../.."))
	require.NoError(t, err)
	assert.Len(t, code.FindAllString(string(mustRead(t, "playground.html")), -1), 7, "one in each step")
	assert.NotContains(t, string(files["index.html"]), "data-in")
	assert.Contains(t, string(files["source/sql/state/write.sql.txt"]), "UPDATE distribute_lock")
	assert.NotContains(t, files, "playground.html")
}

func TestLinked_LineMustBeThereOnce(t *testing.T) {
	tour := `<p><code data-in="a/b.go">if x &gt;= y-1 {</code></p>`
	out := map[string][]byte{}
	got, err := linked(tour, fstest.MapFS{"a/b.go": {Data: []byte("package b\n\tif x >= y-1 {\n")}}, out)
	require.NoError(t, err)
	assert.Equal(t, `<p><code>if x &gt;= y-1 {</code> <a href="source/a/b.go.txt#:~:text=if%20x%20%3E%3D%20y%2D1%20%7B" target="_blank" rel="noopener">a/b.go:2</a></p>`, got)
	assert.Contains(t, out, "source/a/b.go.txt")
	for _, text := range []string{"", "if x >= y-1 {\n}\nif x >= y-1 {\n}\n"} {
		_, err := linked(tour, fstest.MapFS{"a/b.go": {Data: []byte(text)}}, out)
		assert.ErrorContains(t, err, `a/b.go has "if x >= y-1 {"`)
	}
	_, err = linked(tour, fstest.MapFS{}, out)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func mustRead(t *testing.T, name string) []byte {
	text, err := own.ReadFile(name)
	require.NoError(t, err)
	return text
}
