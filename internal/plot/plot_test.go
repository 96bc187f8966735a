package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/plot"
)

// elements returns the attributes of the elements of a name, and requires that the
// picture is well-formed.
func elements(t *testing.T, svg, name string) (out []map[string]string) {
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, svg)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == name {
			attributes := map[string]string{}
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			out = append(out, attributes)
		}
	}
}

func TestDistributions_DrawsEverySample(t *testing.T) {
	svg := string(plot.Distributions(`a "title" <x>`, "ms", []plot.Distribution{
		{Label: "a & b", Samples: []float64{1, 10, 100}, Median: 10, Note: "1 of 4: never"},
		{Label: "many", Shares: []plot.Share{{Value: 100, Part: 1}, {Value: 1, Part: 0.5}}},
	}))
	dots := elements(t, svg, "circle")
	require.Len(t, dots, 3)
	assert.Equal(t, "210.0", dots[0]["cx"], "the scale begins at the smallest value")
	assert.Equal(t, "570.0", dots[1]["cx"], "and is logarithmic")
	assert.Equal(t, "930.0", dots[2]["cx"])
	paths := elements(t, svg, "path")
	require.Len(t, paths, 1)
	assert.Equal(t, "M210.0 90.0H210.0V69.0H930.0V48.0", paths[0]["d"], "half of the samples, and then all; in order")
	assert.Contains(t, svg, "a &amp; b")
	assert.Contains(t, svg, "1 of 4: never")
	assert.NotContains(t, svg, "<x>")
}

func TestDistributions_OfValuesWithoutAScale(t *testing.T) {
	assert.Empty(t, plot.Distributions("x", "ms", nil))
	for _, samples := range [][]float64{nil, {0}, {5}, {1, 1}, {-1, 3}} {
		svg := string(plot.Distributions("x", "ms", []plot.Distribution{{Label: "a", Samples: samples}}))
		assert.Len(t, elements(t, svg, "circle"), len(samples))
		assert.NotContains(t, svg, "NaN")
		assert.NotContains(t, svg, "Inf")
	}
}

func TestLines_DrawsALineForEachLabel(t *testing.T) {
	svg := string(plot.Lines("rate & more", "<registrations>", []plot.Line{
		{Label: "1 <connection>", Points: []plot.Point{{Size: 100_000, Figure: 40_000}, {Size: 10_000, Figure: 60_000}}},
		{Label: "none", Series: 1},
		{Label: "20", Series: 2, Points: []plot.Point{{Size: 10_000, Figure: 50_000}}},
	}))
	lines := elements(t, svg, "polyline")
	require.Len(t, lines, 2, "one without points is left out")
	assert.Equal(t, "100.0,59.0 510.0,134.0", lines[0]["points"], "10,000 is left of 100,000; 60,000 is the top; below the key")
	series := elements(t, svg, "g")
	require.Len(t, series, 2)
	assert.Equal(t, "s0", series[0]["class"])
	assert.Equal(t, "s2", series[1]["class"], "its own also if others are left out")
	assert.Len(t, elements(t, svg, "path"), 3+2, "the points, and the key")
	assert.Contains(t, svg, "<title>10,000: 60,000</title>")
	assert.Contains(t, svg, "1 &lt;connection&gt;")
	assert.NotContains(t, svg, "rate &amp; more, log scale")
	assert.Contains(t, svg, "&lt;registrations&gt;, log scale")
}

// Small figures beside large ones are seen on a logarithmic scale only, and ticks
// whose labels would overlap are left out.
func TestLines_ScalesFiguresOfSeveralMagnitudes(t *testing.T) {
	points := []plot.Point{{Size: 10_000, Figure: 5}, {Size: 11_000, Figure: 30}, {Size: 100_000, Figure: 2000}}
	svg := func() string { return string(plot.Lines("rate", "registrations", []plot.Line{{Points: points}})) }
	assert.Contains(t, svg(), "rate, log scale")
	for _, label := range []string{"1<", "10<", "100<", "1000<", "10,000<", "100,000<"} {
		assert.Contains(t, svg(), ">"+label)
	}
	assert.NotContains(t, svg(), `"middle">11,000<`, "too near to 10,000")
	points[0].Figure = 0
	assert.NotContains(t, svg(), "rate, log scale", "0 has no logarithm")
	assert.Contains(t, svg(), ">500<")
}

func TestLines_OfValuesWithoutAScale(t *testing.T) {
	assert.Empty(t, plot.Lines("x", "n", nil))
	assert.Empty(t, plot.Lines("x", "n", []plot.Line{{Label: "a"}}))
	for _, figure := range []float64{0, 3, 1e9} {
		svg := string(plot.Lines("x", "n", []plot.Line{{Points: []plot.Point{{Size: 7, Figure: figure}}}}))
		assert.Len(t, elements(t, svg, "polyline"), 1)
		assert.NotContains(t, svg, "NaN")
		assert.NotContains(t, svg, "Inf")
		assert.NotContains(t, svg, "log scale")
	}
}
