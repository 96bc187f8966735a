// Session is the program of a session node: see package session/sessioncmd.
package main

import (
	"os"

	"conclave/internal/cli"
	"conclave/session/sessioncmd"
)

func main() { os.Exit(cli.Main(sessioncmd.Process(), os.Args[1:])) }
