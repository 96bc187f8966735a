package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFeedLog_IsCutWithoutFollowersAndForSlowOnes(t *testing.T) {
	var l feedLog
	l.restart()
	key := Key{testOwners[0], testData[0], "r1"}
	l.append(key, withdrawn)
	_, ok := l.since(1, 10)
	assert.False(t, ok, "no follower: nothing was kept")
	_, ok = l.since(9, 10)
	assert.False(t, ok, "a position that was never reached")
	l.follow(true)
	for range longestLog + 1 {
		l.append(key, withdrawn)
	}
	_, ok = l.since(2, 10)
	assert.False(t, ok)
	entries, ok := l.since(l.position-1, 10)
	assert.True(t, ok)
	assert.Len(t, entries, 1)
}
