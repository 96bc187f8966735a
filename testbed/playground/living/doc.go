//go:build js && wasm

// Living is the simulated cluster in a worker of the playground's page. The page posts a
// start (playground.ParseStart) to v1/start, once; from then on the worker answers as the
// console's server does with a live cluster, and v1/pace returns and sets how time moves.
package main
