package scenario

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed library/*.txt
var files embed.FS

// Names returns the names of the built-in scenarios, sorted.
func Names() []string {
	entries, _ := files.ReadDir("library") // it is embedded
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".txt"))
	}
	slices.Sort(out)
	return out
}

// Builtin returns a built-in scenario. An unambiguous beginning of its name,
// such as F4 or f04, is enough.
func Builtin(name string) (Scenario, error) {
	var found []string
	for _, s := range Names() {
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
		return Scenario{}, fmt.Errorf("there is no scenario %q%s", name, suggestion(similar(name, Names())))
	case len(found) > 1:
		return Scenario{}, fmt.Errorf("%d scenarios begin with %q, as %s", len(found), name, strings.Join(found[:min(len(found), maxSuggestions)], ", "))
	}
	file := path.Join("library", found[0]+".txt")
	text, err := files.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read %s: %w", file, err)
	}
	return Parse(file, string(text))
}

// short returns "f4" for "F4", "f04" and "f04-failpoint".
func short(name string) string {
	number, _, _ := strings.Cut(strings.ToLower(name), "-")
	letter, digits, ok := strings.Cut(number, "f")
	if !ok || letter != "" {
		return name
	}
	return "f" + strings.TrimLeft(digits, "0")
}

// FirstSentence returns the first sentence of a comment in one line.
func FirstSentence(about string) string {
	about = strings.Join(strings.Fields(about), " ")
	if end := sentenceEnd.FindStringIndex(about); end != nil {
		return about[:end[0]+1]
	}
	return about
}

var sentenceEnd = regexp.MustCompile(`[.!?]( |$)`)

// maxSuggestions is how many names are offered for an unknown one.
const maxSuggestions = 3

// suggestion puts the names into words.
func suggestion(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (near it: " + strings.Join(names, ", ") + ")"
}

// similar returns the names that may have been meant. They contain the given
// name, or differ from it by one letter, and one more for every eight letters.
// It is compared with the whole name, its number, and the rest.
func similar(name string, all []string) []string {
	name = strings.ToLower(name)
	limit := min(1+len(name)/8, len(name)-1)
	far := map[string]int{}
	var out []string
	for _, s := range all {
		number, title, _ := strings.Cut(s, "-")
		d := min(distance(name, s), distance(name, title), distance(name, number))
		if len(name) > 2 && strings.Contains(s, name) {
			d = 0
		}
		if far[s] = d; d <= limit {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return far[a] - far[b] })
	return out[:min(len(out), maxSuggestions)]
}

// distance returns how many letters must be inserted, removed or changed to
// turn a into b (the Levenshtein distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the part of a that was read to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
