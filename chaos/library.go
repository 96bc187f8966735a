package chaos

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed scenarios/*.txt
var files embed.FS

// Scenarios lists the names of those that are built in, sorted as a reader counts
// (F2 before F10).
func Scenarios() []string {
	entries, err := files.ReadDir("scenarios")
	if err != nil {
		return nil // the folder is embedded: it is there
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	slices.Sort(out)
	return out
}

// Builtin reads a built-in scenario. A short name is enough, if only one begins
// with it: F4, or f04.
func Builtin(name string) (Scenario, error) {
	var found []string
	for _, s := range Scenarios() {
		if s == name {
			found = []string{s}
			break
		}
		if strings.HasPrefix(s, strings.ToLower(name)) || short(s) == short(name) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return Scenario{}, fmt.Errorf("there is no scenario %q%s", name, beside(near(name, Scenarios())))
	case len(found) > 1:
		return Scenario{}, fmt.Errorf("%d scenarios begin with %q, as %s", len(found), name, strings.Join(found[:min(len(found), mostNear)], ", "))
	}
	file := path.Join("scenarios", found[0]+".txt")
	text, err := files.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read %s: %w", file, err)
	}
	return Parse(file, string(text))
}

// short is "f4" of "F4", "f04" and "f04-failpoint".
func short(name string) string {
	number, _, _ := strings.Cut(strings.ToLower(name), "-")
	letter, digits, ok := strings.Cut(number, "f")
	if !ok || letter != "" {
		return name
	}
	return "f" + strings.TrimLeft(digits, "0")
}

// mostNear is how many names are offered for one that is none.
const mostNear = 3

// beside words an offer.
func beside(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (near it: " + strings.Join(names, ", ") + ")"
}

// near are the names that somebody may have meant: they hold what was written, or differ
// from it, whole or without their number or in it, by a slip, and one more for every
// eight letters.
func near(name string, all []string) []string {
	name = strings.ToLower(name)
	slips := min(1+len(name)/8, len(name)-1)
	far := map[string]int{}
	var out []string
	for _, s := range all {
		number, title, _ := strings.Cut(s, "-")
		d := min(distance(name, s), distance(name, title), distance(name, number))
		if len(name) > 2 && strings.Contains(s, name) {
			d = 0
		}
		if far[s] = d; d <= slips {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return far[a] - far[b] })
	return out[:min(len(out), mostNear)]
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the part of a that was read: to each part of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		slant := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := slant
			if a[i] != b[j] {
				change++
			}
			slant = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
