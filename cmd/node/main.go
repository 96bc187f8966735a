// Node is the programs meta, data and session in one file: it runs the one by whose
// name it is called. The processes of a machine then share its pages.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"conclave/data/datacmd"
	"conclave/internal/cli"
	"conclave/meta/metacmd"
	"conclave/session/sessioncmd"
)

func main() {
	program := map[string]func() cli.Process{
		"meta": metacmd.Process, "data": datacmd.Process, "session": sessioncmd.Process,
	}[filepath.Base(os.Args[0])]
	if program == nil {
		fmt.Fprintln(os.Stderr, "node: call it by the name of a link to it: meta, data or session")
		os.Exit(cli.CodeUsage)
	}
	os.Exit(cli.Main(program(), os.Args[1:]))
}
