// Package outside observes a cluster as its users do, for the clusters whose
// nodes are other processes: over HTTP and through the SDK, with timeouts so
// short that a node that does not answer delays nothing else.
//
// What it reports is what the nodes answered, which may be stale: the other
// metas still name a paused leader. Checkers take this into account.
package outside
