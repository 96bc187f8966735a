// Package trace is what nodes say about themselves at the moment at which it
// becomes true: "I lead term 7", "I serve slot 3 at epoch 7.2", "I believed a
// read of orders at version 12". A test listens and judges afterwards whether
// all the claims together can be true.
//
// # Claims
//
// A [Claim] is a small value of plain fields; what they mean is said beside its
// [Kind]. It is made under the very lock that makes it true: claims of one lock
// come in the order of the facts. A claim made after the lock was left may be
// overtaken by the next, and accuses the innocent.
//
// A node without a listener has a nil [Sink], which costs one comparison.
//
// # Points
//
// Some kinds are [Kind.Point]s: they are made without any lock, between a check
// and the act that follows it, or where something has arrived and is not looked at
// yet. There a [Gate] can hold the node, which is how a scenario stops a leader
// between "do I lead?" and the statement, or lets a request be overtaken. So no build
// tag and no generated code is needed for failpoints.
//
// # What it is not
//
// No log, no metric and no event: nothing of this is shown to operators. A process
// writes it to a file only where it was told to (--trace), for the proving ground.
package trace
