package wire_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
)

// An announcement counts from its arrival. The same one under a later epoch
// does not start again, but another one does.
func TestStopping_CountsFromArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, seq := wire.NewView(), uint64(0)
		take := func(value string, version uint64) {
			seq++
			_, err := v.Apply(wire.StateOut(wire.State{Switches: wire.Switches{
				Epoch: conclave.Epoch{Term: 1, Seq: seq},
				List:  []wire.Switch{{Key: wire.SwitchStopping, Value: value, Version: version}},
			}}, nil))
			require.NoError(t, err)
		}
		_, recorded := v.Stopping()
		assert.False(t, recorded)
		take("60000", 1)
		time.Sleep(40 * time.Second)
		take("60000", 1)
		left, recorded := v.Stopping()
		assert.True(t, recorded)
		assert.Equal(t, 20*time.Second, left)
		time.Sleep(30 * time.Second)
		left, recorded = v.Stopping()
		assert.True(t, recorded)
		assert.Zero(t, left)
		take("60000", 2)
		left, _ = v.Stopping()
		assert.Equal(t, time.Minute, left)
		take("0", 3)
		left, recorded = v.Stopping()
		assert.False(t, recorded)
		assert.Zero(t, left)
	})
}
