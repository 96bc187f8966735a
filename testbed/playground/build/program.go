package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"
)

// work is the folder for what is needed on the way, by a name that is the same in each
// checkout: a program has the names of modules that are replaced.
const work = "./.tools/playground"

// trimmed is the folder of the modules that programs are compiled with.
const trimmed = work + "/trimmed"

// oneTrace is the overlay by which one seed has one trace, and one start one state.
const oneTrace = work + "/onetrace/overlay.json"

// programs compiles the player, and the simulated cluster with the trimmed database. The
// overlay is left for recordings.
func programs(out string) error {
	if _, err := goTool(nil, "run", "./testbed/simulated/onetrace", "-out", filepath.Dir(oneTrace)); err != nil {
		return err
	}
	if err := program(out, "player.wasm.gz", "./testbed/playground/player"); err != nil {
		return err
	}
	return program(out, "living.wasm.br", "./testbed/playground/living", "-overlay", oneTrace, "-tags", "onetrace", "-gcflags=all=-l") // without inlining it is a tenth smaller
}

// program compiles a package for the worker, and packs it as the name's ending asks for. flags
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
	fmt.Printf("%9d %s\n", packed.Len(), name)
	return write(filepath.Join(out, name), packed.Bytes())
}

// write writes a file that a host may serve.
func write(name string, text []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)) //nolint:gosec // for everyone
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
