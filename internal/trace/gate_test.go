package trace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave"
	_ "conclave/internal/bubble"
	"conclave/internal/trace"
)

func claim(k trace.Kind) trace.Claim {
	return trace.Claim{Node: conclave.NodeID{Name: "meta-1", Incarnation: "a"}, Kind: k}
}

func TestGateHold_WaitsUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []trace.Kind
		g := trace.NewGate(func(c trace.Claim) { received = append(received, c.Kind) })
		g.Hold("meta-1", trace.Writing)
		passed := make(chan time.Duration)
		start := time.Now()
		go func() { g.Sink(claim(trace.Writing)); passed <- time.Since(start) }()
		time.Sleep(time.Second)
		assert.Equal(t, 1, g.Held("meta-1", trace.Writing))
		assert.Equal(t, []trace.Kind{trace.Writing}, received, "the claim is forwarded before the node waits")
		g.Release("meta-1", trace.Writing)
		assert.Equal(t, time.Second, <-passed)
		assert.Zero(t, g.Held("meta-1", trace.Writing))
		g.Sink(claim(trace.Writing)) // passes
	})
}

func TestGateHoldOne_LetsLaterClaimsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := trace.NewGate(nil)
		g.HoldOne("meta-1", trace.Landing)
		passed := make(chan int, 3)
		for i := range 3 {
			go func() { g.Sink(claim(trace.Landing)); passed <- i }()
			synctest.Wait()
		}
		assert.Equal(t, []int{1, 2}, []int{<-passed, <-passed})
		assert.Equal(t, 1, g.Held("meta-1", trace.Landing))
		g.Release("meta-1", trace.Landing)
		assert.Zero(t, <-passed)
		g.Sink(claim(trace.Landing)) // only one is held
		g.Hold("meta-1", trace.Landing)
		g.HoldOne("meta-1", trace.Landing) // Hold holds all of them already
		for i := range 2 {
			go func() { g.Sink(claim(trace.Landing)); passed <- i }()
		}
		synctest.Wait()
		assert.Equal(t, 2, g.Held("meta-1", trace.Landing))
		g.Free("meta-1")
		<-passed
		<-passed
	})
}

// Neither another node nor a kind that is not a point is held.
func TestGateHold_OtherNodesAndKindsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := trace.NewGate(nil)
		g.Hold("meta-1", trace.Led) // not a point
		g.Hold("meta-2", trace.Writing)
		passed := 0
		go func() {
			for _, k := range []trace.Kind{trace.Led, trace.Writing} {
				g.Sink(claim(k)) // of meta-1
				passed++
			}
		}()
		synctest.Wait()
		assert.Equal(t, 2, passed)
		g.Free("meta-1") // a goroutine that is still held would keep the bubble from ending
		g.Free("meta-2")
	})
}

func TestGateFree_ReleasesEveryPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := trace.NewGate(nil)
		g.Hold("meta-1", trace.Writing)
		g.Hold("meta-1", trace.Swapping)
		done := make(chan bool, 2)
		for _, k := range []trace.Kind{trace.Writing, trace.Swapping} {
			go func() { g.Sink(claim(k)); done <- true }()
		}
		synctest.Wait()
		g.Free("meta-1")
		<-done
		<-done
	})
}

func TestNilSink_DoesNotAllocate(t *testing.T) {
	var s trace.Sink
	assert.Nil(t, s.Of(conclave.NodeID{Name: "meta-1"}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Claim(claim(trace.Led)) }))
}
