//go:build js && wasm

// Living is the simulated cluster in a worker of the playground's page: that of the start
// (playground.ParseStart) that worker.js has. It answers as the console's server does with a
// live cluster, and v1/pace returns and sets how time moves.
package main
