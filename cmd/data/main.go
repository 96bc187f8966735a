// Data is the program of a data node: see package data/datacmd.
package main

import (
	"os"

	"conclave/data/datacmd"
	"conclave/internal/cli"
)

func main() { os.Exit(cli.Main(datacmd.Process(), os.Args[1:])) }
