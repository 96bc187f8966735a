// Package conclave holds the nouns that all parts of the registry share. The
// tour through the code is written here once the parts stand.
package conclave
