// Package page has the files of the playground's page: those of the console's page, whose
// source is a worker here, and a few of its own.
//
//   - worker.js: runs a Go program that answers the page.
//   - tour.js, tour.html: the guided tour.
//   - playground.js, chooser.html, playground.css: the choice of a recording.
//   - living.js, living.html: the living cluster.
//   - scenarios/: what is recorded, by package build.
//
// # Files, in reading order
//
//   - page.go: the files are put together.
package page
