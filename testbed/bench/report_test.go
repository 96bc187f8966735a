package bench_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/bench"
	"conclave/testbed/load"
)

func TestReport_NamesMissedTargets(t *testing.T) {
	yes, no := true, false
	r := bench.Report{Figures: []bench.Figure{
		{Name: "good", What: "a good one", Unit: "ms", Values: load.One(1.5), Target: "p50 <= 5 ms", Reached: &yes, Original: "1,900 ms"},
		{Name: "bad", What: "a bad one", Unit: "per second", Values: load.One(1234567), Reached: &no},
		{Name: "free", What: "without a target", Values: load.One(0)},
	}}
	var out bytes.Buffer
	r.Write(&out)
	assert.Contains(t, out.String(), "1,234,567")
	assert.Equal(t, 1, strings.Count(out.String(), "MISSED"), "only the bad one")
	assert.Contains(t, out.String(), "1,900 ms")
}
