// The tool conclave starts a local cluster of processes, asks and operates any
// cluster, publishes and subscribes, and measures. `conclave help` lists its
// commands; every command's answers, with --json, are those of the HTTP API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the Makefile with -ldflags.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
