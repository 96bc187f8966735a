// Package journal is a recorded run as a file: the history of a run, as the
// checkers read it, with the messages between its hosts, the states of the
// cluster, and at the end the verdicts.
//
// # The file
//
//	magic, version, Header          what was played
//	block 1                         about 128 KiB of records, compressed
//	  the state at its beginning
//	  record, record, ...           in the order of their times
//	block 2 ...
//	footer                          where each block is, its first record and its time; Result; Marks
//	where the footer is, magic
//
// Records have numbers, from 0, and a [Reader] returns any of them: it finds the
// block in the footer and decompresses that one only. A block can be read without
// the blocks before it, because it begins with the newest state and has its own
// table of strings. The state at any record is the newest snapshot before it, with
// what the entries after that say.
//
// # Guarantees
//
//   - A file that is cut short, damaged or of another version is refused with an
//     error that says so: each block and the footer have a checksum.
//   - A damaged or hostile file costs a bounded amount of memory.
//
// # Limits
//
// The file is complete only when the Writer is closed: what is recorded of a run
// that is killed cannot be read. Errors are kept as text.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - reader.go: any record of a file, and the state before it.
//   - writer.go: records are written in blocks.
//   - footer.go: the end of a file, from which its blocks are found.
//   - encode.go: records as bytes.
//   - decode.go: and back.
//   - tags.go: the kinds of records in a block, and the fields of an event.
//   - record.go: what is recorded.
package journal
