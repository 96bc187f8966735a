// Package report shows results to readers: a scenario as one HTML page or as JSON,
// the figures of a bench as one HTML page.
//
// A page loads nothing else and runs no script, so it can be kept, mailed and opened
// without the program. What it shows depends only on its input; names and texts of
// scenarios and clusters are escaped.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - bench.go: the distribution of each figure
//   - report.go: one run of a scenario: verdicts, evidence, timeline; the style of all pages
package report
