package termcas_test

import (
	"os"
	"testing"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
)

// TestConformance plays the suite with both ways to take over: on the embedded
// server in bubbles, and on the server of MYSQL_DSN, if that is set, in real time.
func TestConformance(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		t.Run(string(takeover), func(t *testing.T) {
			t.Run("embedded", func(t *testing.T) {
				electortest.Run(t, true, func(t *testing.T) electortest.World { return inBubble(t, takeover).World })
			})
			if os.Getenv("MYSQL_DSN") == "" {
				return
			}
			t.Run("mysql", func(t *testing.T) {
				electortest.Run(t, false, func(t *testing.T) electortest.World { return onMySQL(t, takeover).World })
			})
		})
	}
}
