//go:build js && wasm

// Player is the console of recordings in a worker of the playground's page: worker.js gives
// it a recording, and a moment or else it plays. It answers as the console's server does
// with that recording (package recorded).
//
// In the worker of the living cluster it only unpacks that program.
package main
