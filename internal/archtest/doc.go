// Package archtest holds the repository to what it says of itself: deps_test.go keeps
// the import rule, which package may know which, and docs_test.go sees to it that the
// tests, files and links that the maps of claims in docs name are there. It has tests
// only.
package archtest
