//go:build js && wasm

// Player is the console of recordings in a worker of the playground's page. The page
// posts a recording to v1/recording; from then on the worker answers as the console's
// server does with that recording (package recorded).
//
// In the worker of the living cluster it only unpacks that program.
package main
