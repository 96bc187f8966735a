// Meta is the program of a meta node: see package meta/metacmd.
package main

import (
	"os"

	"conclave/internal/cli"
	"conclave/meta/metacmd"
)

func main() { os.Exit(cli.Main(metacmd.Process(), os.Args[1:])) }
