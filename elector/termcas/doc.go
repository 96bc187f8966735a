// Package termcas elects by a compare-and-swap of the term in one MySQL row, as
// article 000 does, with a lease that nobody's clock can break, and with a witness:
// a named lock that tells a killed leader from a slow one within a millisecond.
//
// # The row
//
// owner (name and incarnation), address, term, term_duration (the beat), duration
// (the leader's lease), gmt_modified, nonce, witness_lock, witness_conn, resigned.
// Package sql has the columns and every statement with its reasons; this package has
// the order in which they are said. The code refers to the numbers below.
//
// # A round
//
//  1. Look: read the row. The Elector keeps the observation clock: it knows since
//     when this very (term, beat) has been seen, from reads or from pushed beats.
//
//  2. The row names me, but I do not lead that term: never lead it. Its win was not
//     heard of, or the term was left. Win the next term from myself, at once.
//
//  3. Park (observers do not): on a connection of my own, ask who holds the leader's
//     lock. Is it the connection that the row names, then I have the evidence: on
//     this connection, in this life of this server, I have seen the leader hold its
//     lock. With it, wait for the lock; 12 to 16 s at a time. Without it a free lock
//     proves nothing (after a restart of the server all locks are free): do not wait,
//     look again.
//
//  4. Entitled to compete is who finds
//
//     a. the row resigned, or without an owner;
//
//     b. the lease over: this (term, beat) was observed for the row's lease, and the
//     database says that it ran out; or it was observed for three leases, whatever
//     the database's clock says;
//
//     c. the leader's lock in its own hands, on the connection of the evidence, and
//     the leader, asked at its port, gone (the dial is refused) or stopped. "Stopped"
//     is a promise. "Alive" makes the asker give the lock back and look again, and
//     the leader park anew. 100 ms of silence count as stopped. With Takeover Lease
//     all of c is off, and beliefs never overlap.
//
//  5. Prepare: draw a nonce, and take the named lock "cv:"+nonce on the same
//     connection. Nobody can know that name before the winner publishes it, so nobody
//     else can hold it. Where named locks are refused, or the binary log would repeat
//     the statement as text on a replica, there is no witness.
//
//  6. Compare and swap: one UPDATE that says what I read, what I hold, and my ground.
//     The term becomes GREATEST(term, highest seen) + 1. One row changed is a win.
//
//  7. Won: release the old leader's lock at once, which wakes the other waiters and
//     sends them to mine; record the election; lead. Lost: release all, stand by the
//     winner. No answer: the outcome is unknown. Close the connection and re-read; if
//     the nonce is mine, renew on a new connection and lead; else rule 2 applies.
//
// # Renewal
//
// Each beat, on the connection that holds the witness: beat + 1 where owner, term and
// beat are mine. No row: deposed. Its deadline is the end of trust, not half a beat:
// closing the connection would free the lock, and a stall of half a second would
// depose a healthy leader.
//
// The connection lost (its reader says so, or an error, or a peer that was given its
// lock): suspended. A new connection, a new lock, and one UPDATE: beat + 2, the
// witness swapped, where owner and term are mine and the witness is the one I replace.
// A follower's win names the old witness too, so the row decides who was first.
//
// # Resigning
//
// When Lead has returned: one UPDATE (no owner, resigned), release the lock, wake the
// peers.
//
// # The original's statements
//
// [Sofa] is article 000 as it is: the same row, the original's statements in whole
// seconds, no witness, no nonce, no resignation. It is the profile sofa's, and what all
// of the above is measured against.
//
// # Guarantees
//
// Those of package elector. Besides: a restart of the database, a killed connection, or
// a stall shorter than the lease costs no term.
//
// # What is not guaranteed
//
//   - The fast path. A half-open follower at the head of the lock's queue, a proxy that
//     hands statements to different connections, a follower that could not park yet:
//     then the lease decides.
//   - With Takeover Witness, that a leader stopped with SIGSTOP whose connection was
//     broken by somebody else does not believe for a moment after it wakes up. Its
//     statements match nothing.
//   - Terms that rise across a restored backup for nodes that were restarted too: who
//     saw the higher term knows it, who did not does not ([elector.Elector.Seen]).
//
// # When a part dies
//
//	leader, kill -9       kernel closes the socket, the server frees the lock, one waiter
//	                      wakes, asks, is refused, wins: 1 to 20 ms
//	leader, host lost     nothing is closed: the lease
//	winner, right after   the losers stand by it already: again some ms; else the lease
//	a waiter              the server drops it from the queue
//	the server, restarts  all locks are gone and nobody has evidence: the leader parks
//	                      anew and keeps its term
//	the row, deleted      renewals match nothing; it is made anew, and won by who has seen
//	                      it vacant for a lease
package termcas
