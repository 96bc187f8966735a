package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire"
	"conclave/wire/list"
)

// A cursor brings what the push guard compares to a session that knows nothing: without
// the publishers, a new registration stood in for one that was not back yet after a power
// cut (storm 89, of clients without the SDK).
func TestCursor_NamesThePublishersOfAShortList(t *testing.T) {
	for n, named := range map[int]int{0: 0, 1: 1, mostNamed: mostNamed, mostNamed + 1: 0} {
		l := list.New(make([]string, n), make([]uint32, n), 0)
		for i := range l.Publishers {
			l.Publishers[i] = uint32(i) << 20
		}
		c := seenIn(7, l)
		again, err := seenOf(c.String())
		require.NoError(t, err)
		assert.Equal(t, c.String(), again.String())
		assert.Len(t, again.publishers, named)
		assert.EqualValues(t, n, again.count)
		assert.LessOrEqual(t, len(c.String()), 1408, "OpenAPI's bound")
	}
	for _, text := range []string{"7-00000000000000a0-1-AAAA", "7-00000000000000a0-1-", "7-00000000000000a0-1-" + strings.Repeat("A", 1368)} {
		_, err := seenOf(text)
		assert.Equal(t, wire.CodeBadRequest, wire.CodeOf(err), "%v", err)
	}
}
