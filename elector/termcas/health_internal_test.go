package termcas

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble"
)

// Behind one address, servers answer in turn whose clocks differ by an hour.
func TestClock_ServersThatDifferAreLoggedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := &health{s: &Strategy{log: slog.New(slog.NewTextHandler(&log, nil))}}
		for beat := range uint64(1500) { // 25 minutes
			r := row{number: 1, beat: beat, lease: 3 * time.Second, at: time.Now()}
			if beat%2 == 1 {
				r.age = time.Hour * (2 - time.Duration(beat%4)) // ahead, behind
			}
			h.clock(r)
			time.Sleep(time.Second)
		}
		assert.Equal(t, 3, strings.Count(log.String(), "set forward"))
		assert.Equal(t, 3, strings.Count(log.String(), "set back"))
	})
}
