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
//   - server.go: the answers.
//   - unpack_js.go: a program is unpacked.
//   - messages_js.go: the messages, in the worker.
//   - message.go: what the page sends.
package glue
