// Build makes the playground: a folder of static files that any host can serve. It is run in
// the root of the project:
//
//	go run ./testbed/playground/build -o DIR
//
// Two builds of one commit with one version of Go are equal in every byte.
//
// # Files, in reading order
//
//   - main.go: the folder and its parts.
//   - living.go: the cluster for the browser.
//   - recordings.go: scenarios are played by the simulator, and recorded.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"

	"conclave/testbed/playground/page"
)

// work is the folder for what is needed on the way, by a name that is the same in each
// checkout: a program has the names of modules that are replaced.
const work = "./.tools/playground"

// trimmed is the folder of the modules that programs are compiled with.
const trimmed = work + "/trimmed"

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
	if _, err := goTool(nil, "run", "./testbed/playground/trim", "-out", trimmed); err != nil {
		return err
	}
	if err := program(made, "player.wasm.gz", "./testbed/playground/player"); err != nil {
		return err
	}
	if err := living(made); err != nil {
		return err
	}
	if err := recordings(made, work); err != nil {
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

// program compiles a package for the worker, and packs it as the name's ending says. flags
// are those of go build.
func program(out, name, pkg string, flags ...string) error {
	file := filepath.Join(work, strings.TrimSuffix(name, filepath.Ext(name)))
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-modfile", trimmed + "/wasm.mod", "-o", file}, flags...)
	if _, err := goTool([]string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0"}, append(args, pkg)...); err != nil {
		return err
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	var packer io.WriteCloser = brotli.NewWriterOptions(&packed, brotli.WriterOptions{Quality: 9, LGWin: 24})
	if filepath.Ext(name) == ".gz" {
		if packer, err = gzip.NewWriterLevel(&packed, gzip.BestCompression); err != nil {
			return err
		}
	}
	if _, err := packer.Write(code); err != nil {
		return err
	}
	if err := packer.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name), packed.Bytes(), 0o644) //nolint:gosec // for everyone
}

// goTool runs the go command, and returns its output.
func goTool(env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(text), nil
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
		if ext := filepath.Ext(name); ext == ".gz" || ext == ".br" || ext == ".rec" {
			fmt.Printf("%9d %s\n", info.Size(), name)
		}
		return nil
	})
	fmt.Printf("%9d in all; try it: bin/conclave playground %s\n", all, out)
	return err
}
