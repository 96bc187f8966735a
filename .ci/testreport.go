// testreport reads the output of `go test -json` and prints a line for each package,
// all output of what failed, a table of the tests that were repeated (with -count),
// and at the end what was skipped and why. It fails if a test has failed, or none has
// run.
//
//	go test -json ./... | go run .ci/testreport.go
//
// A pipe loses the exit code of `go test`: a line {"Action":"exit","Elapsed":CODE}
// passes it on.

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is one line of test2json, or of the build before it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build event
	Test       string
	Elapsed    float64
	Output     string
}

// place is the file and line before what a test has said.
var place = regexp.MustCompile(`^[\w.-]+\.go:\d+: `)

// figure is a time that a test has logged: "figure: no leader for 6.7 s after ...".
var figure = regexp.MustCompile(`figure: .*?(\d+\.\d+) s`)

// runs are those of one test.
type runs struct {
	passed, failed int
	figures        []float64 // seconds
}

func main() {
	repeated := map[[2]string]*runs{}  // by package and test
	output := map[[2]string][]string{} // by package and test, until it has ended
	skipped := map[string][]string{}   // by reason
	passed, failed, omitted, packages, code := 0, 0, 0, 0, 0

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text()) // not of the test: what the go command says itself
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output":
			if strings.HasPrefix(e.Output, "mysqltest: ") {
				fmt.Print(e.Output)
			}
			output[key] = append(output[key], e.Output)
		case "exit":
			code = int(e.Elapsed)
		case "build-output":
			fmt.Print(e.Output)
		case "pass", "fail", "skip":
			said := output[key]
			delete(output, key)
			if e.Test == "" {
				if e.Action != "skip" { // a package without tests
					packages++
					fmt.Printf("%-4s %s %.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
				}
				if e.Action == "fail" {
					failed++
					fmt.Print(strings.Join(said, ""))
				}
				continue
			}
			if repeated[key] == nil {
				repeated[key] = &runs{}
			}
			repeated[key].add(e.Action, said)
			switch e.Action {
			case "pass":
				passed++
			case "fail":
				failed++
				fmt.Print(strings.Join(said, ""))
			case "skip":
				omitted++
				why := reason(said)
				skipped[why] = append(skipped[why], e.Package+"."+e.Test)
			}
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Println("testreport:", err)
		failed++
	}
	for key, said := range output { // ended without a word: the binary has crashed
		if key[1] != "" {
			fmt.Printf("%s %s has not ended:\n%s", key[0], key[1], strings.Join(said, ""))
			failed++
		}
	}
	if code != 0 && failed == 0 { // killed between two tests, for instance
		fmt.Printf("testreport: go test has ended with code %d\n", code)
		failed++
	}
	if packages == 0 {
		fmt.Println("testreport: no package was tested")
		failed++
	}
	table(repeated)
	report(skipped)
	fmt.Printf("\n%d packages, %d tests passed, %d failed, %d skipped\n", packages, passed, failed, omitted)
	if failed > 0 {
		os.Exit(1)
	}
}

// add counts a run, and takes the figures that it has logged.
func (r *runs) add(action string, said []string) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	}
	for _, line := range said {
		if found := figure.FindStringSubmatch(line); found != nil {
			if seconds, err := strconv.ParseFloat(found[1], 64); err == nil {
				r.figures = append(r.figures, seconds)
			}
		}
	}
}

// table prints the tests that ran more than once.
func table(repeated map[[2]string]*runs) {
	byTest := func(a, b [2]string) int { return cmp.Or(strings.Compare(a[1], b[1]), strings.Compare(a[0], b[0])) }
	for _, key := range slices.SortedFunc(maps.Keys(repeated), byTest) {
		r := repeated[key]
		if r.passed+r.failed < 2 {
			continue
		}
		fmt.Printf("%-58s %3d runs, %d failed", key[1], r.passed+r.failed, r.failed)
		if n := len(r.figures); n > 0 {
			slices.Sort(r.figures)
			fmt.Printf("; p50 %.1f s, max %.1f s", r.figures[(n-1)/2], r.figures[n-1])
		}
		fmt.Println()
	}
}

// reason is what a test said before it was skipped.
func reason(said []string) string {
	var words []string
	for _, line := range said {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "mysqltest: ") {
			continue
		}
		words = append(words, place.ReplaceAllString(line, ""))
	}
	if len(words) == 0 {
		return "no reason was given"
	}
	return strings.Join(words, " ")
}

// report lists what was skipped, by its reason.
func report(skipped map[string][]string) {
	if len(skipped) == 0 {
		fmt.Println("\nnothing was skipped")
		return
	}
	fmt.Println("\nSKIPPED, and why:")
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Printf("  %s\n", why)
		for _, test := range slices.Sorted(slices.Values(skipped[why])) {
			fmt.Printf("    %s\n", test)
		}
	}
}
