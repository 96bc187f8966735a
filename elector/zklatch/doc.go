// Package zklatch has the locks and the leaders of article 004, as Curator builds them
// on ZooKeeper, and an election strategy over them.
//
// # One waiter is woken
//
// A lock could be one node of one name ([SingleNode]): who makes it holds it, the others
// watch it. Each release then wakes all of them, to make one the next: n waiters cost
// n(n+1)/2 wake-ups. So a lock is a line:
//
//	/lock/_c_5f..-lock-0000000007   holds
//	/lock/_c_91..-lock-0000000008   waits, and watches 7
//	/lock/_c_03..-lock-0000000011   waits, and watches 8
//
// Each node is numbered by the server and ends with its session. The lowest holds; each
// other watches the one before it, and nothing else: n waiters cost n wake-ups, and who
// came first is first.
//
// # A place in the line
//
//  1. Draw an id, and make the node with the id in its name. If the answer is lost,
//     look for the id among the children: found, it is ours; else begin again. Whatever
//     turns up with an old id later is deleted.
//  2. Whose is the node? Its owner must be our present session.
//  3. Read the children. The own node is missing: its session was over, begin at 1.
//     The rule lets it go (it is the first; or no writer is before it): done.
//  4. Read and watch the node that bars the way. It is gone already: go to 3, because
//     no event would ever come. Wait for the event, for a change of the connection, or
//     for ctx; then go to 3: an event says that something has changed, not what.
//  5. ctx has ended: delete the node, in the background until it is gone.
//
// [Mutex] (reentrant: its owner is the handle), [Semaphore] (not), [ReadWrite] and
// [Latch] differ in their rule and in who counts. Revocation is a letter in the holder's
// node, and the holder's to heed ([Mutex.MakeRevocable], [Client.AttemptRevoke]).
//
// # When may a holder still believe
//
// ZooKeeper's servers end a session of which they have heard nothing for its timeout,
// and the next in the line holds. The old holder must have stopped by then, and nobody
// can tell it. So:
//
//   - The clock is our own, monotonic, and counts from before a request was sent that
//     has been answered since ([Session.Heard]): the servers count from later.
//   - Belief ends a margin before that and the timeout, and at once when the connection
//     breaks ([Mutex.Holding], [Latch.HasLeadership], the Selector's context).
//   - What go-zookeeper gives for this: a state "disconnected", two thirds of a timeout
//     after the last packet came, whenever its request had been sent; no time of any
//     ping, no timeout as granted. [Conn] therefore reads along on the connection.
//
// On a reconnect a Latch compares the owner of its node with its session: the same, and
// it goes on at its place; another, or no node, and it begins anew.
//
// # The strategy
//
//		/election/term     the record: term, leader, beat, lease, and the leader's place
//		/election/line/    the latches' places
//
//	 1. A candidate has a latch in the line; an observer has none.
//	 2. The first in the line writes the next term, GREATEST(term, highest seen) + 1, in one
//	    transaction that checks the record's version and that its own place is there.
//	 3. No answer: the record names the place, or it does not. If it does, a beat on the
//	    new connection proves that the place still is there.
//	 4. A beat is the same transaction: record's version, own place, beat + 1. Another
//	    version or no place: deposed. It is repeated until it is answered, or trust ends.
//	 5. A resignation says so in the record and deletes the place, which wakes one.
//
// A place is good for one term: who is outranked, or promised a term away, leaves the line
// and stands anew. So "that place is there" is a fence for effects, too: the leader's
// writes check it in their own transaction ([Client.Fenced]). The sessions' timeout must be
// at least the lease: with less, a term is not taken.
//
//	waiting -----------> first -----------> leading ----------> suspended
//	   ^    predecessor   |    record written    |  connection     |  beat answered on
//	   |    gone          | lost: record or      |  broken         |  the new one: leads on
//	   |                  v place changed        v                 v
//	   +------------ place given up <------- resigned, deposed, trust ended
//
// # What is not guaranteed
//
//   - That two never believe, if a process is stopped between its check and its act.
//     Fence what matters.
//   - On several servers, the sign of life that a follower of theirs has had is passed
//     on to their leader only each half tick. A follower that is cut off in that time takes
//     it along. Ask for a session longer than the lease by a tick there.
//   - That a killed leader is followed at once: its session lasts its timeout. (Conclave's
//     own strategy, termcas, is faster: a database frees a lock when its connection breaks.)
//
// # When a part dies
//
//	the leader, killed         its session's timeout, then one waiter is woken
//	the leader, cut off        stops at once or by its clock; then as above
//	a connection               taken up with its session; the leader is suspended meanwhile
//	a waiter                   who watched it looks again, and watches the one before it
//	the record, deleted        the next beat finds nothing: deposed; terms go on above the
//	                           highest that any candidate has seen
package zklatch
