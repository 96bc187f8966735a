package regex

import (
	"context"
	"testing"
)

func TestRegex_PositionsAreCharactersFromOne(t *testing.T) {
	ctx := context.Background()
	re := CreateRegex(0)
	defer re.Close()
	if _, err := re.Matches(ctx, 0, 1); err != ErrRegexNotYetSet {
		t.Fatalf("no pattern: %v", err)
	}
	if err := re.SetRegexString(ctx, "(", RegexFlags_None); err == nil {
		t.Fatal("an invalid pattern was accepted")
	}
	if err := re.SetRegexString(ctx, "([a-c])([0-9])?", RegexFlags_Case_Insensitive); err != nil {
		t.Fatal(err)
	}
	if _, _, err := re.Substring(ctx, 1, 1); err != ErrMatchNotYetSet {
		t.Fatalf("no text: %v", err)
	}
	if err := re.SetMatchString(ctx, "ä A1 b c3"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		start, occurrence int
		end               bool
		want              int
	}{{1, 1, false, 3}, {1, 1, true, 5}, {4, 1, false, 6}, {1, 3, false, 8}, {1, 3, true, 10}, {1, 4, false, 0}, {100, 1, false, 0}} {
		if got, err := re.IndexOf(ctx, c.start, c.occurrence, c.end); err != nil || got != c.want {
			t.Errorf("%+v: %d %v", c, got, err)
		}
	}
	for _, c := range []struct {
		replacement       string
		start, occurrence int
		want              string
	}{{"<$2$1>", 1, 0, "ä <1A> <b> <3c>"}, {`\$1`, 1, 1, "ä $1 b c3"}, {"$10", 4, 1, "ä A1 b0 c3"}} {
		if got, err := re.Replace(ctx, c.replacement, c.start, c.occurrence); err != nil || got != c.want {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
	if _, err := re.Replace(ctx, "$7", 1, 0); err == nil {
		t.Error("a group that does not exist was accepted")
	}
	if got, ok, err := re.Substring(ctx, 1, 2); got != "b" || !ok || err != nil {
		t.Errorf("%q %v %v", got, ok, err)
	}
	if ok, err := re.Matches(ctx, 8, 1); ok || err != nil {
		t.Errorf("Matches from 8: %v %v, want no match", ok, err)
	}
}
