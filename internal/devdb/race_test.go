//go:build race

package devdb_test

const underRace = true
