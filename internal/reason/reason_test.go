package reason_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble"
	"conclave/internal/reason"
)

func TestSeen_NewReasonsAreReportedAndOldOnesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s reason.Seen
		full, away := errors.New("disk full"), errors.New("no answer")
		assert.True(t, s.New("write", full, time.Minute))
		assert.False(t, s.New("write", full, time.Minute))
		assert.True(t, s.New("read", full, time.Minute), "it is of something else")
		assert.True(t, s.New("write", away, time.Minute))
		assert.False(t, s.New("write", full, time.Minute), "the two alternate")
		time.Sleep(time.Minute)
		assert.True(t, s.New("write", full, time.Minute))
		s.Forget("write")
		assert.True(t, s.New("write", full, time.Minute), "it had succeeded")
		assert.False(t, s.New("read", errors.New("disk full"), 2*time.Minute))
		for i := range 100 {
			assert.Equal(t, i == 0, s.New("dial", fmt.Errorf("from port %d", 40000+i), time.Minute))
		}
	})
}
