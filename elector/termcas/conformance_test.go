package termcas_test

import (
	"testing"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
)

// TestConformance runs the suite with both takeovers: on the embedded server in bubbles,
// and on the real ones, single and replicated, in real time.
func TestConformance(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		t.Run(string(takeover), func(t *testing.T) {
			t.Run(string(mysqltest.Embedded), func(t *testing.T) {
				electortest.Run(t, true, func(t *testing.T) electortest.World { return inBubble(t, takeover).World })
			})
			mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
				electortest.Run(t, false, func(t *testing.T) electortest.World { return onServer(t, s, takeover).World })
			})
		})
	}
	for _, kind := range mysqltest.Replicated() { // on Galera the witness turns itself off
		t.Run(string(kind), func(t *testing.T) {
			r := mysqltest.NewReplicas(t, kind)
			electortest.Run(t, false, func(t *testing.T) electortest.World { return onReplicas(t, r, termcas.Witness).World })
		})
	}
}
