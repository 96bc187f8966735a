package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/testbed/scenario"
)

func TestGrammar_HasEveryPartOfTheLanguage(t *testing.T) {
	text := scenario.Grammar()
	for _, want := range []string{
		"A file holds one scenario", "  takeover lease ", "\n  kill WHO\n", "  the rest ", "  session of CLIENT ",
		"  served without WHO       stable, and WHO leads no slot\n", "  held WHO at POINT ", "  leaderless               from the end", "The points: ", "stop-push",
		"  budget session 20us a message 10ns a byte queue 1000000\n", "  burst by FACTOR ", "  end burst\n", "  overload ",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "//")
	assert.NotContains(t, text, "Storms")
}
