package conclave_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
)

// FuzzParseDataInfoID: what is parsed is valid, and its String parses to the same.
func FuzzParseDataInfoID(f *testing.F) {
	for _, s := range []string{"a#@#b#@#c", "a#@##@#", "#@#b#@#c", "a#@#@#@#c", "a##@#b#@#c", "a", "a#@#b#@#c#@#d", "é#@#\x00#@#\xff", "a=b#@#c#@#d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := conclave.ParseDataInfoID(s)
		if err != nil {
			assert.LessOrEqual(t, len(err.Error()), 2048, "an error quotes a part of what was sent")
			return
		}
		require.NoError(t, id.Validate())
		again, err := conclave.ParseDataInfoID(id.String())
		require.NoError(t, err)
		assert.Equal(t, id, again)
	})
}

// FuzzParseNodeID: what is parsed has a String that parses to the same.
func FuzzParseNodeID(f *testing.F) {
	for _, s := range []string{"meta-1/abc", "meta-1@abc", "meta-1", "/", "", "a/b/c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := conclave.ParseNodeID(s); err == nil {
			again, err := conclave.ParseNodeID(id.String())
			require.NoError(t, err)
			assert.Equal(t, id, again)
		}
	})
}
