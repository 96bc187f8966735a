package list_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"conclave/wire/list"
)

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
