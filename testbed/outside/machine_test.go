package outside

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProcessorTime_GrowsWhileTheProcessWorks(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	before := ProcessorTime(os.Getpid())
	require.Eventually(t, func() bool {
		for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		}
		return ProcessorTime(os.Getpid()) >= before+50*time.Millisecond
	}, 30*time.Second, time.Millisecond)
	assert.Zero(t, ProcessorTime(0), "no such process")
}
