// Package electortest is the test suite of election strategies, and the tools to
// write more tests of them: a [Cluster] of candidates with a ledger, which fails the
// test when a term has two owners, and a [Cable] between each candidate and the store,
// which can be cut, stalled, or made to lose an answer.
//
// A strategy's test provides a [World] (how to reach its store and how to make a
// strategy) and calls [Run]. In a synctest bubble leases pass in no time; the same
// cases run on a real server in real time. suite.go lists the cases, with one
// function for each.
package electortest
