package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"conclave/testbed/playground/page"
)

// marker is a file that only a playground has: a folder without it is not replaced.
const marker = "wasm_exec.js"

func main() {
	out := flag.String("o", "playground", "the folder; what an earlier build has left there is replaced")
	flag.Parse()
	if err := build(*out); err != nil {
		fmt.Fprintln(os.Stderr, "build the playground:", err)
		os.Exit(1)
	}
}

func build(out string) error {
	if err := mayReplace(out); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o750)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	// Beside the folder, which stays as it is if the build fails.
	made := filepath.Clean(out) + ".new"
	if err := errors.Join(os.RemoveAll(made), os.MkdirAll(made, 0o755)); err != nil { //nolint:gosec // for everyone
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	if err := pages(made); err != nil {
		return err
	}
	if err := programs(made); err != nil {
		return err
	}
	if err := recordings(made); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.Rename(made, out)); err != nil {
		return err
	}
	return sizes(out)
}

// mayReplace returns why a folder cannot be replaced, or nil: it is not there or empty, or
// an earlier build has made it.
func mayReplace(out string) error {
	found, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, marker)); err != nil && len(found) > 0 {
		return fmt.Errorf("%s has files, and no playground: choose another folder", out)
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
		name = filepath.Join(out, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil { //nolint:gosec // for everyone
			return err
		}
	}
	return nil
}

// sizes prints what a browser loads.
func sizes(out string) error {
	var all int64
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all += info.Size()
		if info.Size() > 100_000 {
			fmt.Printf("%9d %s\n", info.Size(), name)
		}
		return nil
	})
	fmt.Printf("%9d in all; try it: bin/conclave playground %s\n", all, out)
	return err
}
