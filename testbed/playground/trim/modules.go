package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The modules that are changed.
const (
	engine = "github.com/dolthub/go-mysql-server"
	parser = "github.com/dolthub/vitess"
	paths  = "github.com/dolthub/jsonpath"
	packer = "github.com/andybalholm/brotli"
)

// module is a copy of one.
type module struct{ dir string }

// modules are the copies.
type modules map[string]module

// copyOf copies a module from the module cache.
func copyOf(path, out string) (m module, err error) {
	from, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return m, fmt.Errorf("go list -m %s: %w", path, err)
	}
	m = module{filepath.Join(out, filepath.Base(path))}
	return m, os.CopyFS(m.dir, os.DirFS(strings.TrimSpace(string(from))))
}

// add writes a file that the module does not have.
func (m module) add(name, text string) error {
	name = filepath.Join(m.dir, filepath.FromSlash(name))
	if _, err := os.Stat(name); err == nil {
		return fmt.Errorf("%s exists: it may be needed no longer", name)
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// edit changes a file.
func (m module) edit(name string, change func(text string) (string, error)) error {
	name = filepath.Join(m.dir, filepath.FromSlash(name))
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(changed), 0o600)
}

// replace replaces a text that must occur so many times.
func (m module) replace(name string, times int, from, to string) error {
	return m.edit(name, func(text string) (string, error) {
		if n := strings.Count(text, from); n != times {
			return "", fmt.Errorf("%q occurs %d times, want %d: trim does not fit this version", from, n, times)
		}
		return strings.ReplaceAll(text, from, to), nil
	})
}

// once replaces a text that must occur once.
func once(text, from, to string) (string, error) {
	if n := strings.Count(text, from); n != 1 {
		return "", fmt.Errorf("%q occurs %d times, want once: trim does not fit this version", from, n)
	}
	return strings.Replace(text, from, to, 1), nil
}
