// Package termcas elects a leader by a compare-and-swap of the term in one MySQL
// row, as article 000 does. Two things are added: a lease that does not depend on
// any machine's clock being right, and a witness, a named lock by which the other
// candidates detect a killed leader within milliseconds. Many elections in one process
// share connections and statements over a [Shared].
//
// # The row
//
// owner (name and incarnation), address, term, term_duration (the beat), duration
// (the leader's lease), gmt_modified, nonce, witness_lock, witness_conn, resigned.
// Package sql has the columns and the statements with the reason for each
// predicate; this package has the order in which they are executed. The code
// refers to the numbers below.
//
// # A round
//
//  1. Look: read the row. The Elector keeps the observation: since when this very
//     (term, beat) has been seen, from reads or from pushed beats.
//
//  2. If the row names this node but the node does not lead that term, it never
//     leads it: the term was left, or the answer to the win was lost and the read
//     after it did not show the nonce. Win the next term from itself: at once, or
//     after the row's lease if a higher term was seen elsewhere, of another node.
//
//  3. Wait for the witness (observers do not): on a connection of its own, the
//     node asks the server which connection holds the leader's lock. If it is the
//     connection named in the row, that is the evidence: on this connection, since
//     this start of the server, the leader was seen to hold its lock. The node then
//     waits for the lock, 12 to 16 s at a time. Without the evidence a free lock
//     proves nothing (after a restart of the server all locks are free), so the
//     node does not wait; it looks again later.
//
//  4. A candidate may compete if it finds
//
//     a. the row resigned, or without an owner: at once, or after its lease as in
//     rule 2;
//
//     b. the lease expired: this (term, beat) was observed for the row's lease, and
//     the database reports that it has run out; or it was observed for three
//     leases, whatever the database's clock says;
//
//     c. that it has acquired the leader's lock, on the connection of the evidence,
//     and nothing at the leader's port confirms the term within 100 ms: the dial
//     is refused, no answer comes, or the answer is the promise never to lead it.
//     If the leader confirms, the candidate releases the lock and looks again, and
//     the leader reacquires its witness. With Takeover Lease, and on Galera, all of
//     c is off, and perceived leaderships never overlap.
//
//  5. Prepare: draw a nonce, and take the named lock "cv:"+nonce on the same
//     connection. No other node can know that name before the winner publishes it,
//     so no other node can hold the lock. There is no witness where the server
//     refuses named locks, or where the binary log would repeat the statement as
//     text on a replica.
//
//  6. Compare and swap: one UPDATE that names owner, term and nonce as read, the
//     lock that is held, and the reason to compete. The term becomes
//     GREATEST(term, highest seen) + 1. If it changes one row, the candidate has
//     won. If it changes none and the row is as before, it is sent once more
//     without a lock to publish, since a proxy may alter statements (not for c).
//
//  7. After a win, lead; then release the old leader's lock, which wakes the other
//     waiters and makes them wait for the new lock, and record the election. After
//     a loss, release everything and wait for the winner's witness. Without an
//     answer the outcome is unknown: close the connection and read the row. If it
//     has this nonce, renew on a new connection and lead; otherwise rule 2 applies
//     to whatever is executed later.
//
// # Renewal
//
// Each beat, on the connection that holds the witness: beat + 1 where owner, term
// and beat are as this node left them. If no row matches, the node is deposed. The
// deadline is the end of trust, not half a beat: closing the connection would free
// the lock, and a stall of half a second would depose a healthy leader. What the
// server has refused (a deadlock, a lock wait) is repeated on the same connection.
//
// If the connection is lost (its reader or a statement returns another error, or a peer
// was given its lock), the leader is suspended. It reacquires a witness: a new
// connection, a new lock, and one UPDATE with beat + 2 that replaces the witness,
// where owner and term are its own and the old witness is the one that it read. A
// follower's win names the old witness too, so the row decides which was first.
//
// # Resigning
//
// When Lead has returned: one UPDATE (no owner, resigned), release the lock, wake
// the peers.
//
// # The original's statements
//
// [Sofa] is article 000 as it is: the same row, the original's statements in whole
// seconds, no witness, no nonce, no resignation. The profile "sofa" uses it, as the
// baseline for comparisons.
//
// # Guarantees
//
// Those of package elector, and: a restart of the database, a killed connection (with Ask),
// or a stall that ends before the leader's trust does costs no term.
//
// # What is not guaranteed
//
//   - The fast takeover. With a half-open follower at the head of the lock's
//     queue, a proxy that sends statements to different connections, or a follower
//     that does not wait for the witness yet, the lease decides.
//   - With Takeover Witness, that no two perceived leaderships overlap: a leader
//     stopped with SIGSTOP, whose connection was broken from outside, believes it
//     leads for a moment when it continues. Its statements match nothing.
//   - Rising terms across a restored backup for nodes that were restarted too: a
//     node knows the higher term only if it saw it ([elector.Elector.Seen]).
//
// # Failures
//
//	leader, kill -9       the kernel closes the socket, the server frees the lock, one waiter
//	                      acquires it, asks, is refused, wins: 1 to 20 ms
//	leader, host lost     no connection is closed: the lease
//	winner, right after   the losers wait for its witness already: some ms; else the lease
//	a waiter              the server removes it from the queue
//	the primary, replaced all reconnect to the new one; within the lease the term continues
//	the server, restarts  all locks are gone and no node has evidence: the leader reacquires
//	                      a witness and keeps its term
//	the row, deleted      renewals match nothing; the row is created again, and won by a node
//	                      that has seen it vacant for a lease
package termcas
