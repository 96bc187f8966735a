package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func TestPublisherIn_ChecksLimits(t *testing.T) {
	ok := conclave.Publisher{ID: "r", Data: conclave.DataInfoID{DataID: "d", Instance: "i", Group: "g"}, Version: 1, Values: []string{"v"}}
	got, err := wire.PublisherIn(wire.PublisherOut(ok))
	require.NoError(t, err)
	assert.Equal(t, ok, got)

	for what, spoil := range map[string]func(*wirev1.Publisher){
		"data info id": func(p *wirev1.Publisher) { p.DataInfoId = "no parts" },
		"'='":          func(p *wirev1.Publisher) { p.DataInfoId = "a=b#@#i#@#g" },
		"limit":        func(p *wirev1.Publisher) { p.Values = []string{strings.Repeat("x", conclave.MaxValue+1)} },
		"version":      func(p *wirev1.Publisher) { p.Version = 1 << 53 },
		"registration": func(p *wirev1.Publisher) { p.Id = "" },
	} {
		bad := wire.PublisherOut(ok)
		spoil(bad)
		_, err := wire.PublisherIn(bad)
		assert.ErrorContains(t, err, what)
	}
}
