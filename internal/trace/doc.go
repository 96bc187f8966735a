// Package trace is how nodes report facts about themselves at the moment when
// they become true: "this node leads term 7", "it serves slot 3 at epoch 7.2",
// "it accepted a read of orders at version 12". A test collects the claims and
// checks afterwards whether all of them can be true together.
//
// # Claims
//
// A [Claim] is a small value of plain fields; the comment of its [Kind]
// explains them. A node makes a claim while it holds the lock that makes the
// claim true, so claims made under one lock arrive in the order of the facts. A
// claim made after the lock was released could be overtaken by the next one,
// and a check would then report a violation that did not happen.
//
// A node without a listener has a nil [Sink], which costs one comparison.
//
// # Points
//
// Some kinds are points ([Kind.Point]): their claims are made without any lock,
// between a check and the action that follows it, or where something has
// arrived and has not been looked at. A [Gate] can hold the node there. This is
// how a scenario stops a leader between "do I lead?" and the statement, or lets
// a request be overtaken, so failpoints need no build tag and no generated
// code.
//
// # What it is not
//
// Claims are not log lines, metrics or events, and are not shown to operators.
// A process writes them to a file only with the flag --trace, which tests use.
package trace
