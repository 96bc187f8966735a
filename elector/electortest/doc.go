// Package electortest is the suite that every election strategy passes, and the
// tools to write such tests: a [Cluster] of candidates with a ledger that fails the
// test when a term has two owners, and a [Cable] between each of them and the store
// that can be cut, stalled, or made to lose an answer.
//
// A strategy's test gives a [World] (how to reach its store, how to make a
// strategy) and calls [Run]. In a synctest bubble leases pass in no time, and the
// same stories run on a real server in real time. The list of claims is in suite.go,
// each of them is a function in claims.go.
package electortest
