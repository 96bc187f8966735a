// Trim writes copies of modules of the playground, mostly of the embedded database, changed
// so that they build for js/wasm, load fast, and start fast, and a go.mod that uses them:
//
//	go run ./testbed/playground/trim -out DIR
//	GOOS=js GOARCH=wasm go build -modfile DIR/wasm.mod ./testbed/playground/living
//
// (The go command refuses an overlay of files in the module cache.) No code that a
// statement of Conclave needs is changed. Each change asserts what it replaces; if a new
// version of a module differs, trim reports it and exits with 1.
//
// # Files, in reading order
//
//   - main.go: copies, and changes of texts.
//   - data.go: data that no statement of Conclave needs.
//   - split.go: functions that a browser takes minutes to compile.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "", "write the copies to this folder in the module, by its name from there; it must not exist")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "trim:", err)
		os.Exit(1)
	}
}

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

func run(out string) error {
	if out == "" {
		return fmt.Errorf("-out is required")
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	all := modules{}
	for _, path := range []string{engine, parser, paths, packer} {
		if all[path], err = copyOf(path, out); err != nil {
			return err
		}
		gomod = fmt.Appendf(gomod, "\nreplace %s => ./%s\n", path, filepath.ToSlash(all[path].dir))
	}
	for _, change := range []func(modules) error{compiles, withoutData, split} {
		if err := change(all); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(out, "wasm.mod"), gomod, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "wasm.sum"), sum, 0o600)
}

// copyOf copies a module from the module cache.
func copyOf(path, out string) (m module, err error) {
	from, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return m, fmt.Errorf("go list -m %s: %w", path, err)
	}
	m = module{filepath.Join(out, filepath.Base(path))}
	return m, os.CopyFS(m.dir, os.DirFS(strings.TrimSpace(string(from))))
}

// compiles replaces what does not compile for js.
func compiles(m modules) error {
	e, p := m[engine], m[parser]
	if err := e.add("internal/sockstate/netstat_js.go", `package sockstate

import "net"

func tcpSocks(AcceptFn) ([]sockTabEntry, error) { return nil, ErrSocketCheckNotImplemented.New() }

func GetConnInode(*net.TCPConn) (uint64, error) { return 0, ErrSocketCheckNotImplemented.New() }
`); err != nil {
		return err
	}
	if err := e.add("server/net_listener_js.go", `package server

import "net"

func newNetListener(protocol, address string) (net.Listener, error) { return net.Listen(protocol, address) }
`); err != nil {
		return err
	}
	if err := e.replace("server/net_listener_unix.go", 1, "//go:build !windows", "//go:build !windows && !js"); err != nil {
		return err
	}
	return p.replace("go/mysql/auth_server_static.go", 2, "syscall.SIGHUP", "syscall.SIGTERM")
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
