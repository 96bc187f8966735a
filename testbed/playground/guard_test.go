package playground

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed"
	"conclave/testbed/console"
)

func TestAct_OfTwoHoldsAtOnePointTheLastOneReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began, done := guards{holds: map[testbed.Action]int{}}, time.Now(), []string(nil)
		do := func(_ context.Context, a testbed.Action) error {
			done = append(done, fmt.Sprint(time.Since(began), " ", a))
			return nil
		}
		for _, lasts := range []string{"3", "1"} {
			ours, err := g.act(console.Request{Do: "hold", Node: "meta-1", Peer: "landing", Value: lasts}, []string{"meta-1"}, do)
			require.True(t, ours)
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"0s hold meta-1 at landing", "0s hold meta-1 at landing", "3s release meta-1 at landing"}, done)
	})
}
