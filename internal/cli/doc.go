// Package cli is what the three processes meta, data and session have in common:
// settings, exit codes, signals.
//
// A setting comes from the first of these places that has it:
//
//	the flag, CONCLAVE_<ROLE>_<KEY>, the YAML file of --config, the default
//
// An unknown key is an error in each of them. A process binds its flags to its
// Config as usual; values from the environment and the file are set on the same
// flags, so that every value is checked in one way and --print-config shows all
// of them. The common settings are the fields of node.Config.
//
// SIGHUP makes a process with a token file read that again.
//
// Exit codes: 0 stopped gracefully, 1 failed, 2 wrong usage, 4 timed out (the
// database could not be reached in time). The first SIGTERM or SIGINT starts the
// graceful stop, a second one ends the process at once.
package cli
