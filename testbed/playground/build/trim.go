package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// trim writes copies of modules, mostly of the embedded database, changed so that they build
// for js/wasm, load fast, and start fast, and a go.mod that uses them. out is a folder in
// the module that does not exist, by its name from there. (The go command refuses an overlay
// of files in the module cache.)
func trim(out string) error {
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	for _, module := range []string{engine, parser, paths, packer} {
		from, err := goTool(nil, "list", "-m", "-f", "{{.Dir}}", module)
		if err != nil {
			return err
		}
		to := filepath.Join(out, filepath.Base(module))
		if err := os.CopyFS(to, os.DirFS(strings.TrimSpace(from))); err != nil {
			return err
		}
		gomod = fmt.Appendf(gomod, "\nreplace %s => ./%s\n", module, filepath.ToSlash(to))
	}
	for _, c := range changes {
		if err := c.apply(out); err != nil {
			return fmt.Errorf("%s: %s: %w", c.module, c.files, err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, filepath.Base(engine), "internal", "sockstate", "netstat_js.go"), []byte(netstat), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "wasm.mod"), gomod, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "wasm.sum"), sum, 0o600)
}

// apply makes a change in the copies, and fails if a new version of a module differs.
func (c change) apply(out string) error {
	files, err := filepath.Glob(filepath.Join(out, filepath.Base(c.module), filepath.FromSlash(c.files)))
	if err != nil {
		return err
	}
	find, times := regexp.MustCompile(c.find), 0
	for _, f := range files {
		if name, _, _ := strings.Cut(filepath.Base(f), "."); slices.Contains(collations, strings.TrimSuffix(name, "_Weights")) {
			continue
		}
		text, changed := []byte(nil), []byte(c.by)
		if c.find == "" {
			times++
		} else if text, err = os.ReadFile(f); err != nil {
			return err
		} else {
			times += len(find.FindAllIndex(text, -1))
			changed = find.ReplaceAll(text, changed)
		}
		if err := os.WriteFile(f, changed, 0o600); err != nil {
			return err
		}
	}
	if times != c.times {
		return fmt.Errorf("%q is found %d times, want %d: trim does not fit this version", c.find, times, c.times)
	}
	return nil
}
