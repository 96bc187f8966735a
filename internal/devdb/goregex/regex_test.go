package regex

import (
	"context"
	"testing"
)

func TestRegex_RefusesPatterns(t *testing.T) {
	re := CreateRegex(0)
	if err := re.SetRegexString(context.Background(), "a", RegexFlags_None); err != ErrUnsupported {
		t.Fatal(err)
	}
	if err := re.Close(); err != nil {
		t.Fatal(err)
	}
}
