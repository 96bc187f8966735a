// Package devdbcmd is the program devdb: the embedded MySQL server for a laptop, a
// demo or a test. It executes the statements of Conclave, listens on loopback, and keeps
// its tables in one file. Package internal/devdb describes what it guarantees.
//
// It stops at SIGTERM. With --with-parent it also stops when its standard input
// ends. A parent process that holds the other end of the pipe leaves no server
// behind when it dies.
package devdbcmd
