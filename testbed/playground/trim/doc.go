// Trim writes copies of modules of the playground, mostly of the embedded database, changed
// so that they build for js/wasm, load fast, and start fast, and a go.mod that uses them:
//
//	go run ./testbed/playground/trim -out DIR
//	GOOS=js GOARCH=wasm go build -modfile DIR/wasm.mod ./testbed/playground/living
//
// (The go command refuses an overlay of files in the module cache.) No code that a
// statement of Conclave needs is changed. Each change asserts how often it finds what it
// replaces; if a new version of a module differs, trim reports it and exits with 1.
//
// # Files, in reading order
//
//   - main.go: the copies.
//   - changes.go: what is changed, and why.
package main
