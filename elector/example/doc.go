// Example elects a leader among its processes, on the MySQL of its DSN. Start it
// twice and kill the process that works with SIGKILL: the other one continues
// within milliseconds, in the next term. With SIGTERM or Ctrl-C it completes what it
// has begun and hands the term over.
//
//	go run ./elector/example 'root@tcp(127.0.0.1:3307)/conclave' worker-1
//
// # Files, in reading order
//
//   - main.go: the election, and what the leader does
//
// # What is not guaranteed
//
//   - That a process that was stopped for a while knows that it does not lead any more.
//     Its writes are fenced (package fence), so they change nothing.
package main
