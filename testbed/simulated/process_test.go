package simulated

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
)

// A kill ends a graceful stop that is in progress, at the instant of the kill.
func TestKill_EndsGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Set(t, testbed.Size{Seed: 1, Sessions: 1})
		s.Subscribe(s.Client("client-1"), "service-1")
		s.Stable(10 * time.Second)
		p := s.stop("session-1") // its client has no session to move to
		time.Sleep(time.Second)
		assert.Same(t, p, s.process("session-1"), "it is still stopping")
		killed := time.Now()
		s.Kill("session-1")
		assert.Zero(t, time.Since(killed))
		assert.Nil(t, s.process("session-1"))
	})
}
