package termcas_test

import (
	"testing"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
)

// TestConformance runs the suite with both takeovers: on the embedded server in bubbles,
// and on the real ones, single and replicated, in real time. As these mostly wait, several
// run at the same time (-parallel).
func TestConformance(t *testing.T) {
	for _, takeover := range []termcas.Takeover{termcas.Witness, termcas.Lease} {
		t.Run(string(takeover), func(t *testing.T) {
			t.Parallel()
			t.Run(string(mysqltest.Embedded), func(t *testing.T) {
				electortest.Run(t, true, func(t *testing.T) electortest.World { return inBubble(t, takeover).World })
			})
			mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) {
				electortest.Run(t, false, func(t *testing.T) electortest.World { return onServer(t, s, takeover).World })
			})
		})
	}
	mysqltest.OnReplicas(t, func(t *testing.T, r *mysqltest.Replicas) { // on Galera the witness turns itself off
		electortest.Run(t, false, func(t *testing.T) electortest.World { return onReplicas(t, r, termcas.Witness).World })
	})
}
