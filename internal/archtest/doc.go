// Package archtest checks what the repository states about itself; it has tests
// only. deps_test.go holds the import rule: which package may import which.
// docs_test.go checks that the tests, files, functions and links that the documents
// name exist, and glossary_test.go that the identifiers of the glossary do.
package archtest
