package playground

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/console"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
)

func TestParseStart_ReadsWhatStringHasWritten(t *testing.T) {
	s := Start{Seed: 7, Metas: 5, Sessions: 2, Datas: 3, Moment: 20 * time.Second, Acts: []Act{
		{1250 * time.Millisecond, console.Request{Do: "kill", Node: "meta-1"}},
		{2000130 * time.Microsecond, console.Request{Do: "drain", Node: "data-1"}},
		{9 * time.Second, console.Request{Do: "storm", Value: "3"}},
	}}
	text := "7*5*2*3~1.25*kill*meta-1~2.00013*drain*data-1~9*storm***3~20"
	assert.Equal(t, text, s.String())
	got, err := ParseStart(text)
	require.NoError(t, err)
	assert.Equal(t, s, got)
}

// What a failed storm prints is the fragment of an address.
func TestParseStart_ReadsTheStormOfTheSimulator(t *testing.T) {
	text, ok := strings.CutPrefix(simulated.Living(scenario.Storm(12, nil)), "#living=")
	require.True(t, ok)
	s, err := ParseStart(text)
	require.NoError(t, err)
	assert.Equal(t, []Act{{7 * time.Second, console.Request{Do: "storm", Value: "12"}}}, s.Acts)
	assert.Equal(t, uint64(12), s.Seed)
}

func TestParseStart_RefusesWhatIsNoStart(t *testing.T) {
	for _, text := range []string{
		"", "x", "-1", "1*2", "1*99*2*3", "1*a*2*3", "1~", "1~x", "1~NaN", "1~Inf*kill", "1~-1*kill", "1~1e9*kill*meta-1", "1~1~2", "1~2*kill*meta-1~1*kill*meta-2",
		"1~1*", "1~1**meta-1", "1~1*kill*<b>", "1~1*kill*a*b*c*d", "1~1*kill*" + strings.Repeat("a", 65), "1~1*kill*meta-1%00",
	} {
		_, err := ParseStart(text)
		assert.Error(t, err, text)
	}
}

func FuzzParseStart(f *testing.F) {
	f.Add("7*5*2*3~1.25*kill*meta-1~2.00013*drain*data-1~20")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStart(text)
		if err != nil {
			return
		}
		again, err := ParseStart(s.String())
		require.NoError(t, err)
		assert.Equal(t, s, again)
	})
}
