// Package glue connects the playground's page with a console.Source that runs as
// WebAssembly in a worker of that page: it answers, on messages, the paths that the
// console's server has over HTTP.
//
//	page: transport.js <--messages--> worker.js <--[Messages]--> [Serve] --> console.Source
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - unpack_js.go: a program is unpacked.
//   - messages_js.go: the messages, in the worker.
//   - server.go: the messages, and what is answered.
package glue
