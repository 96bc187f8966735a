package list_test

import (
	"encoding/binary"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/wire/list"
)

// Nodes and clients of 0.1.0 compute the hash of a list in parts themselves.
func TestContentHash_OfListInPartsIsOfAllBytes(t *testing.T) {
	for name, l := range map[string]*list.List{
		"large values": list.New([]string{strings.Repeat("x", list.PartsFrom), "y"}, []uint32{1, 2}, 0),
		"no values":    list.New([]string{"x"}, make([]uint32, list.PartsFrom/4), 0),
	} {
		require.Greater(t, l.Bytes(), list.PartsFrom)
		h := fnv.New64a()
		for _, v := range l.Values {
			_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(v))))
			_, _ = h.Write([]byte(v))
		}
		assert.Equal(t, h.Sum64(), l.Hash(), name)
	}
}

func TestContentHash_DependsOnValuesAndOrder(t *testing.T) {
	assert.NotEqual(t, list.ContentHash([]string{"ab"}), list.ContentHash([]string{"a", "b"}))
	assert.NotEqual(t, list.ContentHash([]string{"a", "b"}), list.ContentHash([]string{"b", "a"}), "the order is content")
	assert.NotEqual(t, list.ContentHash(nil), list.ContentHash([]string{""}))
	assert.NotZero(t, list.ContentHash(nil), "zero means no content")
}

func TestEntryHash_SumIdentifiesSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := rapid.MapOf(rapid.StringMatching(`[a-z]{1,3}`), rapid.Int64Range(1, 5))
		a, b := versions.Draw(t, "a"), versions.Draw(t, "b")
		sum := func(m map[string]int64) (s uint64) {
			for id, v := range m {
				s += list.EntryHash(id, v)
			}
			return s
		}
		assert.Equal(t, equal(a, b), sum(a) == sum(b))
	})
}

func equal(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
