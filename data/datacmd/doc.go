// Package datacmd is the program data: the process that keeps publishers in
// memory, sharded in slots. See package data for what it does, and package cli for
// flags, signals and exit codes.
package datacmd
