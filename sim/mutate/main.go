package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	only   string
	search bool
	storms bool
	seeds  int
	table  bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "only guards with one of these words in their name, separated by |")
	flag.BoolVar(&o.search, "search", false, "when the guard's own plays do not catch it, try every story and -seeds storms")
	flag.BoolVar(&o.storms, "storms", false, "play -seeds storms only, and report which is the first that catches the guard's absence")
	flag.IntVar(&o.seeds, "seeds", 20, "how many storms a search tries")
	flag.BoolVar(&o.table, "markdown", false, "print the rows of a table in Markdown")
	flag.Parse()
	missed, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if missed > 0 {
		os.Exit(2)
	}
}

func run(o options) (missed int, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	caught, began := 0, time.Now()
	for _, g := range guards {
		if !g.named(o.only) {
			continue
		}
		by, err := g.judged(dir, o)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", g.name, err)
		}
		if by == "" {
			missed++
			by = "NOBODY"
			if g.open != "" {
				by += ": " + g.open
			}
		} else {
			caught++
		}
		if o.table {
			fmt.Printf("| %s | `%s` | %s |\n", g.name, g.file, strings.ReplaceAll(by, "|", "\\|"))
		} else {
			fmt.Printf("%-55s %s\n", g.name, by)
		}
	}
	fmt.Fprintf(os.Stderr, "%d guards taken out in %s, %d missed by somebody, %d by nobody\n", caught+missed, time.Since(began).Round(time.Second), caught, missed)
	return missed, nil
}

// named says whether the guard is asked for.
func (g guard) named(only string) bool {
	for words := range strings.SplitSeq(only, "|") {
		if strings.Contains(g.name, words) {
			return true
		}
	}
	return false
}

// judged takes the guard out, alone or with those that cover it, and says what
// was found; "" is nothing.
func (g guard) judged(dir string, o options) (string, error) {
	out := []guard{g}
	for _, name := range g.covered {
		other, err := find(name)
		if err != nil {
			return "", err
		}
		out = append(out, other)
	}
	binary, err := compile(dir, out)
	if err != nil {
		return "", err
	}
	if o.storms {
		by, err := playStorms(dir, binary, o.seeds)
		if err != nil || by == "" {
			return "", err
		}
		return "caught by storms alone: " + by, nil
	}
	by, err := g.hunt(dir, binary, o)
	switch {
	case err != nil:
		return "", err
	case by == "" && g.test.name != "":
		fails, err := g.test.fails(dir)
		if err != nil || !fails {
			return "", err
		}
		return fmt.Sprintf("caught by the test %s of %s, by no story", g.test.name, g.test.pkg), nil
	case by == "":
		return "", nil
	case len(g.covered) > 0:
		return fmt.Sprintf("covered by \"%s\" (taken out together: %s)", strings.Join(g.covered, `" and "`), by), nil
	}
	return "caught by " + by, nil
}

// hunt plays until something is found.
func (g guard) hunt(dir, binary string, o options) (string, error) {
	for _, p := range g.by {
		found, err := p.play(binary)
		if err != nil || found != "" {
			return found, err
		}
	}
	if !o.search {
		return "", nil
	}
	if found, err := played(binary, []string{"-test.run", "^TestStories$", "-test.failfast"}); err != nil || found != "" {
		return found, err
	}
	return playStorms(dir, binary, o.seeds)
}

func find(name string) (guard, error) {
	for _, g := range guards {
		if g.name == name {
			return g, nil
		}
	}
	return guard{}, fmt.Errorf("no guard %q", name)
}
