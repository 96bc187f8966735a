// Package plot draws what was measured as SVG for HTML pages that load nothing
// else: distributions with every sample, not bars of means.
//
// What is drawn depends only on its input. Colours are classes of [Style]; nothing is
// shown by colour alone.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - distribution.go: distributions, one below the other on one scale.
//   - scale.go: from a value to its place in the picture.
package plot
