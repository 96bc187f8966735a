//go:build race

package simulated_test

const raceDetector = true
