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
	if len(found) != 1 {
		return Scenario{}, fmt.Errorf("scenario %q: %d are built in by that name", name, len(found))
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
