package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadCounter_FailsWithoutTheMetric(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "# HELP gone_total Clients.\n# TYPE gone_total counter\ngone_total_more 4\ngone_total 1.5e+03\n")
	}))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	n, err := readMetric(t.Context(), s.Client(), address, "gone_total")
	require.NoError(t, err)
	assert.EqualValues(t, 1500, n)
	_, err = readMetric(t.Context(), s.Client(), address, "gone")
	assert.ErrorContains(t, err, "no metric gone at "+address)
}
