package bench_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"conclave/testbed/bench"
)

func TestDist_Values(t *testing.T) {
	d := bench.NewDist()
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
		d := bench.NewDist()
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

func TestReport_NamesMissedTargets(t *testing.T) {
	yes, no := true, false
	r := bench.Report{Figures: []bench.Figure{
		{Name: "good", What: "a good one", Unit: "ms", Values: bench.One(1.5), Target: "p50 <= 5 ms", Reached: &yes, Original: "1,900 ms"},
		{Name: "bad", What: "a bad one", Unit: "per second", Values: bench.One(1234567), Reached: &no},
		{Name: "free", What: "without a target", Values: bench.One(0)},
	}}
	var out bytes.Buffer
	r.Write(&out)
	assert.Contains(t, out.String(), "1,234,567")
	assert.Equal(t, 1, strings.Count(out.String(), "MISSED"), "only the bad one")
	assert.Contains(t, out.String(), "1,900 ms")
}
