// Package journal is a recorded run as a file: the history of a run, as the
// checkers read it, with the messages between its hosts, the states of the
// cluster, and at the end the verdicts.
//
// A file is JSON lines in gzip, which a shell can read too:
//
//	{"recording":5, "name":...}     what was played: Header
//	{"at":-536000000, "event":...}  the records, in the order of their times
//	...
//	{"result":...}                  how the run ended: Result
//
// A [Recording] has all of it in memory: open no file of a stranger, since a record of a
// few bytes may take a hundred times as many. A file that is cut short, damaged or of
// another version is refused, and one with more than 128 MiB of lines too. It is
// complete only when the Writer is closed: what is recorded of a run that is killed
// cannot be read. Errors are kept as text, beside what failed.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - file.go: a file is written and read.
//   - why.go: what led to a record.
//   - record.go: what is recorded.
package journal
