package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"conclave/testbed/playground/page"
)

func main() {
	out := flag.String("o", "playground", "the folder; it must not exist")
	only := flag.String("trim", "", "write only the trimmed modules, and a go.mod that uses them: to this folder of the module, which must not exist")
	flag.Parse()
	do, to := build, *out
	if *only != "" {
		do, to = trim, *only
	}
	if err := do(to); err != nil {
		fmt.Fprintln(os.Stderr, "build the playground:", err)
		os.Exit(1)
	}
}

func build(out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o755); err != nil { //nolint:gosec // for everyone
		return err
	}
	if err := errors.Join(os.Mkdir(filepath.Join(out, "recordings"), 0o755), os.RemoveAll(work), os.MkdirAll(work, 0o750)); err != nil { //nolint:gosec // for everyone
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, part := range []func(string) error{pages, func(string) error { return trim(trimmed) }, programs, recordings} {
		if err := part(out); err != nil {
			return err
		}
	}
	return nil
}

// pages writes the page, and what starts a Go program in a browser.
func pages(out string) error {
	files, err := page.Files(os.DirFS("."))
	if err != nil {
		return err
	}
	root, err := goTool(nil, "env", "GOROOT")
	if err != nil {
		return err
	}
	const start = "wasm_exec.js"
	if files[start], err = os.ReadFile(filepath.Join(strings.TrimSpace(root), "lib", "wasm", start)); err != nil {
		return err
	}
	for name, text := range files {
		if err := write(filepath.Join(out, filepath.FromSlash(name)), text); err != nil {
			return err
		}
	}
	return nil
}
