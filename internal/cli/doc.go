// Package cli is what the three processes meta, data and session share at their
// outside: settings, exit codes, signals.
//
//	flags, then CONCLAVE_<ROLE>_<KEY>, then the YAML file of --config, then the default
//
// The nearer wins, and a key that no flag has is an error wherever it stands. A
// process binds its flags to its Config as usual; what the environment and the
// file say is put into those same flags, so that every value is checked in one
// way and --print-config shows all of them.
//
// Exit codes: 0 stopped gracefully, 1 failed, 2 wrong usage, 4 timed out (the
// database was not there in time). The first SIGTERM or SIGINT begins the
// graceful stop, a second one ends the process at once.
package cli
