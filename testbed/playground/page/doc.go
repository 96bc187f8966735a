// Package page has the files of the playground's page: those of the console's page, whose
// source is a worker here, and a few of its own.
//
//   - worker.js: runs a Go program that answers the page.
//   - playground.html, playground.css: what is above the console's page.
//   - tour.js: the guided tour.
//   - playground.js: the choice of a recording, and the living cluster.
//   - scenarios/: what is recorded, by package build.
//
// # Files, in reading order
//
//   - page.go: the files are put together.
package page
