package oversell

import "fmt"

// Sales is what a Store has sold: the replies that it has sent, and the stock.
type Sales struct {
	Way     string `json:"way"`
	GoodsNo int    `json:"goodsNo"`
	Items   int    `json:"items"` // stock at the beginning

	Requests  int `json:"requests"`  // purchases requested; those in progress have no outcome yet
	Succeeded int `json:"succeeded"` // replies that the purchase succeeded
	SoldOut   int `json:"soldOut"`   // replies that there is not enough stock
	Failed    int `json:"failed"`    // replies that the purchase failed
	Unknown   int `json:"unknown"`   // replies that there are no such goods
	Errors    int `json:"errors"`    // errors of the database or the lock; whether they bought is not known
	GivenUp   int `json:"givenUp"`   // requests that ended before their turn

	Stock    int `json:"stock"`    // in the database now
	Deducted int `json:"deducted"` // items that are deducted from the stock
	Oversold int `json:"oversold"` // purchases that succeeded without an item
	Lost     int `json:"lost"`     // purchases that succeeded and are not deducted from the stock
}

// Verdict describes the outcome.
func (s Sales) Verdict() string {
	if s.Errors > 0 {
		return fmt.Sprintf("%s (requests that ended with an error, and may have bought: %d)", s.known(), s.Errors)
	}
	return s.known()
}

// known describes the outcome of the requests that were answered.
func (s Sales) known() string {
	switch {
	case s.Oversold > 0:
		return fmt.Sprintf("oversold: %d items, %d purchases succeeded, %d of them are not deducted from the stock", s.Items, s.Succeeded, s.Lost)
	case s.Lost > 0:
		return fmt.Sprintf("lost updates: %d of %d purchases that succeeded are not deducted from the stock, so that more can be sold than there is", s.Lost, s.Succeeded)
	case s.Lost < 0:
		return fmt.Sprintf("the stock has lost %d items more than purchases succeeded", -s.Lost)
	}
	if s.Errors > 0 {
		return "the stock has lost as many items as purchases succeeded"
	}
	if s.Succeeded == 0 {
		return "nothing was sold"
	}
	return "not oversold: each purchase that succeeded is deducted from the stock"
}

// Broken reports whether something was oversold or lost although the way must
// not.
func (s Sales) Broken() bool {
	for _, w := range Ways() {
		if w.Name == s.Way && w.Claim == Holds {
			return s.Oversold > 0 || s.Lost > 0
		}
	}
	return false
}
