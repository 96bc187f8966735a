package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A node that is slow is sent half as much, down to a least, one that is quick
// twice as much, and one that refuses a request is sent ever less of it until the
// change that it refuses is alone.
func TestWriter_SizeFollowsTheNode(t *testing.T) {
	for _, x := range []struct {
		what       string
		most, sent int
		taken      bool
		took       time.Duration
		want       int
	}{
		{"quick", 512, 512, true, time.Millisecond, 1024},
		{"quick, but with fewer than there may be", 512, 10, true, time.Millisecond, 512},
		{"quick, and as many as may be", writeChanges, writeChanges, true, time.Millisecond, writeChanges},
		{"neither quick nor slow", 512, 512, true, writeSlow * 3 / 4, 512},
		{"slow", 4096, 1000, true, writeSlow + 1, 500},
		{"slow with few changes", 4096, 70, true, time.Minute, writeLeast},
		{"refused", 512, 512, false, time.Millisecond, 256},
		{"refused, and the last one", 64, 1, false, time.Minute, 1},
	} {
		assert.Equal(t, x.want, nextSize(x.most, x.sent, x.taken, x.took), x.what)
	}
}
