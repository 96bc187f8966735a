package oversell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave/lab/oversell"
)

func TestSales_Verdict(t *testing.T) {
	for want, s := range map[string]oversell.Sales{
		"not oversold: each purchase that succeeded is deducted from the stock": {Items: 5, Succeeded: 2, Deducted: 2, Stock: 3},
		"the stock has lost as many items as purchases succeeded (requests that ended with an error, and may have bought: 1)": {
			Items: 5, Succeeded: 2, Deducted: 2, Stock: 3, Errors: 1, // one more may have bought, and one update may be lost
		},
		"oversold: 5 items, 6 purchases succeeded, 1 of them are not deducted from the stock": {Items: 5, Succeeded: 6, Deducted: 5, Oversold: 1, Lost: 1},
	} {
		assert.Equal(t, want, s.Verdict())
	}
}
