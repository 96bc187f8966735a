// Package page has the files of the playground's page: those of the console's page, whose
// source is a worker here, and a few of its own.
//
//   - worker.js: runs a Go program that answers the page.
//   - playground.js, chooser.html, playground.css: the choice of a recording.
//   - living.js, living.html: the living cluster.
//   - scenarios/: what is recorded, by package build.
package page

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"conclave/testbed/console"
)

//go:embed worker.js playground.js living.js playground.css chooser.html living.html
var own embed.FS

// policy lets the page load its own files and run its own WebAssembly, and nothing else. The
// document has it too, for hosts that send no header.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'"

// Policy is the header Content-Security-Policy of a host. A document cannot forbid frames
// around it, so this is not in the document.
const Policy = policy + "; frame-ancestors 'none'"

// Files returns the files of the page by their names.
func Files() (map[string][]byte, error) {
	out, err := read(console.Page())
	if err != nil {
		return nil, err
	}
	more, err := read(own)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, more)
	index := string(out["index.html"])
	for _, change := range [][2]string{
		{`<html lang="en">`, `<html lang="en" data-mode="recording" data-worker="worker.js?player">`},
		{`<meta charset="utf-8">`, `<meta charset="utf-8">` + "\n" + `<meta http-equiv="Content-Security-Policy" content="` + policy + `">`},
		{`<title>Conclave console</title>`, `<title>Conclave playground</title>`},
		{`<script type="module" src="main.js">`, `<link rel="stylesheet" href="playground.css">` + "\n" + `<script type="module" async src="transport.js"></script>` + "\n" + `<script type="module" src="playground.js">`},
		{"</header>\n", "</header>\n" + string(out["chooser.html"]) + string(out["living.html"])},
	} {
		if n := strings.Count(index, change[0]); n != 1 {
			return nil, fmt.Errorf("the console's index.html has %q %d times, want once", change[0], n)
		}
		index = strings.Replace(index, change[0], change[1], 1)
	}
	out["index.html"] = []byte(index)
	delete(out, "chooser.html")
	delete(out, "living.html")
	return out, nil
}

func read(from fs.FS) (map[string][]byte, error) {
	out := map[string][]byte{}
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if out[e.Name()], err = fs.ReadFile(from, e.Name()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
