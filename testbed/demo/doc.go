// Package demo is the narrator of the demo: it prints a scenario while it is
// played, scene by scene, with figures, and stops the cluster gracefully at the
// end. The demo itself is in scenario files, demo.txt and
// outages.txt; package scenario plays them, package check checks them.
package demo
