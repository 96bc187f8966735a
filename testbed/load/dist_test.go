package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"conclave/testbed/load"
)

func TestDist_Values(t *testing.T) {
	d := load.NewDist()
	for i := 1; i <= 100; i++ {
		d.Add(time.Duration(i) * time.Millisecond)
	}
	v := d.Values()
	assert.Equal(t, 100, v.N)
	assert.InEpsilon(t, 1, v.Min, 0.001)
	assert.InEpsilon(t, 50, v.P50, 0.002)
	assert.InEpsilon(t, 99, v.P99, 0.002)
	assert.InEpsilon(t, 100, v.Max, 0.002)
}

func TestDist_ValuesAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := load.NewDist()
		in := rapid.SliceOfN(rapid.Int64Range(-5, int64(time.Hour)), 1, 50).Draw(t, "durations")
		for _, ns := range in {
			d.Add(time.Duration(ns))
		}
		v := d.Values()
		if v.N != len(in) || v.Min > v.P50 || v.P50 > v.P99 || v.P99 > v.Max {
			t.Fatalf("%v gives %+v", in, v)
		}
	})
}
