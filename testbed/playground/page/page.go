package page

import (
	"embed"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"regexp"
	"strings"

	"conclave/testbed/console"
)

//go:embed *.js *.css *.html
var own embed.FS

// policy lets the page load its own files and run its own WebAssembly, and nothing else. The
// document has it too, for hosts that send no header.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'"

// Policy is the header Content-Security-Policy of a host. A document cannot forbid frames
// around it, so this is not in the document.
const Policy = policy + "; frame-ancestors 'none'"

// Files returns the files of the page by their names. source is the root of the project.
func Files(source fs.FS) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, from := range []fs.FS{console.Page(), own} {
		entries, err := fs.ReadDir(from, ".")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if out[e.Name()], err = fs.ReadFile(from, e.Name()); err != nil {
				return nil, err
			}
		}
	}
	parts, err := linked(string(out["playground.html"]), source, out)
	if err != nil {
		return nil, err
	}
	index := string(out["index.html"])
	for _, change := range [][2]string{
		{`<html lang="en">`, `<html lang="en" data-mode="recording" data-worker="worker.js">`},
		{`<meta charset="utf-8">`, `<meta charset="utf-8">` + "\n" + `<meta http-equiv="Content-Security-Policy" content="` + policy + `">`},
		{`<title>Conclave console</title>`, `<title>Conclave playground</title>`},
		{`<script type="module" src="main.js">`, `<link rel="stylesheet" href="playground.css">` + "\n" + `<script type="module" async src="transport.js"></script>` + "\n" + `<script type="module" src="tour.js">`},
		{"</header>\n", "</header>\n" + parts},
	} {
		if n := strings.Count(index, change[0]); n != 1 {
			return nil, fmt.Errorf("the console's index.html has %q %d times, want once", change[0], n)
		}
		index = strings.Replace(index, change[0], change[1], 1)
	}
	out["index.html"] = []byte(index)
	delete(out, "playground.html")
	return out, nil
}

// code matches a line of the source in the tour; struck through is one that is taken out.
var code = regexp.MustCompile(`<code data-in="([^"]+)">((?:<s>)?([^<]+)(?:</s>)?)</code>`)

// linked adds to each line of code in the tour a link to it in a copy of its file, in the
// folder source of the page. It fails if the file does not have the line, or has it twice.
func linked(tour string, source fs.FS, out map[string][]byte) (_ string, err error) {
	tour = code.ReplaceAllStringFunc(tour, func(s string) string {
		m := code.FindStringSubmatch(s)
		file, line := m[1], html.UnescapeString(m[3])
		text, cause := fs.ReadFile(source, file)
		number, times := 0, 0
		for i, l := range strings.Split(string(text), "\n") {
			if strings.TrimSpace(l) == line {
				number, times = i+1, times+1
			}
		}
		if times != 1 {
			err = errors.Join(err, cause, fmt.Errorf("the tour: %s has %q in %d lines, want one", file, line, times))
		}
		out["source/"+file+".txt"] = text
		return fmt.Sprintf(`<code>%s</code> <a href="source/%s.txt#:~:text=%s" target="_blank" rel="noopener">%s:%d</a>`,
			m[2], file, strings.NewReplacer("+", "%20", "-", "%2D").Replace(url.QueryEscape(line)), file, number)
	})
	return tour, err
}
