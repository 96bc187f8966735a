package lab

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/plot"
)

func TestLanes_SeparateLeadingFromBelieving(t *testing.T) {
	const second = 1_000_000_000
	var r Row
	r.timeline([]Leadership{
		{"n1@1", 10 * second, 0, 14 * second}, {"n2@1", 13 * second, 0, open}, {"n1@2", 16 * second, 20 * second, open},
	}, []Span{{"n1@1", 12 * second, 15 * second}}, 18*second)
	assert.Equal(t, []Led{{"n1@1", 0, 4000}, {"n2@1", 3000, 8000}, {"n1@2", 6000, 8000}}, r.Led, "what is open ends with the run")
	assert.Equal(t, []plot.Lane{
		{Label: "n1", Bars: []plot.Bar{
			{From: 0, To: 3, Text: "n1@1 leads for 3000 ms"}, {From: 3, To: 4, Believed: true, Text: "n1@1 only believed that it leads, for 1000 ms"},
			{From: 6, To: 8, Text: "n1@2 leads for 2000 ms"},
		}, Marks: []plot.Mark{{At: 2, Text: "a fault of n1@1"}}},
		{Label: "n2", Bars: []plot.Bar{
			{From: 3, To: 6, Text: "n2@1 leads for 3000 ms"}, {From: 6, To: 8, Believed: true, Text: "n2@1 only believed that it leads, for 2000 ms"},
		}},
	}, r.lanes())

	var out bytes.Buffer
	report := exampleReport()
	report.Rows[0].Led, report.Rows[0].Injected = r.Led, r.Injected
	require.NoError(t, report.WriteHTML(&out))
	assert.Contains(t, out.String(), "only believed that it leads")
	assert.Empty(t, new(Row).lanes())
}
