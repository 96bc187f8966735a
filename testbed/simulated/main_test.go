package simulated_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *only != "" {
		if _, err := load(*only); err != nil { // one line, for make sim SCENARIO=
			fmt.Fprintf(os.Stderr, "SCENARIO=%s: %v; want the name of a scenario (bin/conclave chaos list) or the absolute path of a file\n", *only, err)
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m)
}
