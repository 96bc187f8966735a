// Devdb is the embedded MySQL server as a program: see package
// internal/devdb/devdbcmd.
package main

import (
	"os"

	"conclave/internal/devdb/devdbcmd"
)

func main() { os.Exit(devdbcmd.Main(os.Args[1:])) }
