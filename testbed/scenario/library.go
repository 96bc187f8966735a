package scenario

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed library/*.txt
var files embed.FS

// Names returns the names of the built-in scenarios, sorted.
func Names() []string {
	entries, err := files.ReadDir("library")
	if err != nil {
		return nil // cannot happen: the folder is embedded
	}
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

// maxSuggestions is how many names are offered for an unknown one.
const maxSuggestions = 3

// suggestion puts the names into words.
func suggestion(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (near it: " + strings.Join(names, ", ") + ")"
}

// similar returns the names that contain the given one.
func similar(name string, all []string) (out []string) {
	for _, s := range all {
		if strings.Contains(s, strings.ToLower(name)) {
			out = append(out, s)
		}
	}
	return out[:min(len(out), maxSuggestions)]
}
