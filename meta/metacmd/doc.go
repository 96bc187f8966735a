// Package metacmd is the program meta: the process that elects a leader through
// MySQL and keeps the leases of session and data nodes, the slot table, the
// blacklist and the switches. See package meta for what it does, and package cli
// for flags, signals and exit codes.
package metacmd
