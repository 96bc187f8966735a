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
	}))
	dots := elements(t, svg, "circle")
	require.Len(t, dots, 3)
	assert.Equal(t, "210.0", dots[0]["cx"], "the scale begins at the smallest value")
	assert.Equal(t, "570.0", dots[1]["cx"], "and is logarithmic")
	assert.Equal(t, "930.0", dots[2]["cx"])
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
