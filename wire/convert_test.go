package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func TestCheckPublisher_ChecksLimits(t *testing.T) {
	ok := func() *wirev1.Publisher {
		return &wirev1.Publisher{Id: "r", DataInfoId: "d#@#i#@#g", Version: 1, Values: []string{"v"}}
	}
	got := ok()
	require.NoError(t, wire.CheckPublisher(got))
	assert.True(t, proto.Equal(ok(), got))

	for what, spoil := range map[string]func(*wirev1.Publisher){
		"data info id": func(p *wirev1.Publisher) { p.DataInfoId = "no parts" },
		"'='":          func(p *wirev1.Publisher) { p.DataInfoId = "a=b#@#i#@#g" },
		"limit":        func(p *wirev1.Publisher) { p.Values = []string{strings.Repeat("x", conclave.MaxValue+1)} },
		"version":      func(p *wirev1.Publisher) { p.Version = 1 << 53 },
		"registration": func(p *wirev1.Publisher) { p.Id = "" },
	} {
		bad := ok()
		spoil(bad)
		assert.ErrorContains(t, wire.CheckPublisher(bad), what)
	}
}

func TestCheckPublisher_CompletesTheNameAndDropsValuesOfAWithdrawal(t *testing.T) {
	p := &wirev1.Publisher{Id: "r", DataInfoId: "d#@##@#", Version: 1, Values: []string{"v"}, Withdrawn: true}
	require.NoError(t, wire.CheckPublisher(p))
	data, err := conclave.NewDataInfoID("d", "", "")
	require.NoError(t, err)
	assert.Equal(t, data.String(), p.DataInfoId)
	assert.Empty(t, p.Values)
}
