// Package report shows results to readers: a scenario as one HTML page or as JSON.
//
// A page loads nothing else and runs no script, so it can be kept, mailed and opened
// without the program. What it shows depends only on its input; names and texts of
// scenarios and clusters are escaped.
package report
