package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "write the copies to this folder in the module, by its name from there; it must not exist")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "trim:", err)
		os.Exit(1)
	}
}

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
