// Package sessioncmd is the program session: the process to which clients connect.
// It holds their registrations, of which it is the source of truth, and pushes
// lists to subscribers. See package session for what it does, and package cli for
// flags, signals and exit codes.
package sessioncmd
