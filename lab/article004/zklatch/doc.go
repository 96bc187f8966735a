// Package zklatch has the locks and leader elections of article 004, which Curator
// builds on ZooKeeper. [Client] is one session; its methods make the recipes.
//
// # Waking one waiter
//
// A lock could be a single node ([SingleNode]): the client that creates it holds the
// lock, and the others watch it. Each release then wakes all of them (the thundering
// herd): n waiters cost n(n+1)/2 wake-ups. So a lock is a queue of sequential nodes:
//
//	/lock/_c_5f..-lock-0000000007   holds
//	/lock/_c_91..-lock-0000000008   waits, and watches 7
//	/lock/_c_03..-lock-0000000011   waits, and watches 8
//
// The server numbers each node, and deletes it when its session ends. The lowest node
// holds the lock. Each other one watches only the one before it: n waiters cost n
// wake-ups, and the lock is fair.
//
// # A place in the queue
//
//  1. Draw an id, and create the node with the id in its name (a protected name). If
//     the answer is lost, look for the id among the children; if it is not there, start
//     again. A node with an old id that appears later is deleted.
//  2. Check the node's owner: it must be the present session.
//  3. Read the children. If the own node is missing, its session has ended: start at 1.
//     If the rule lets it proceed (it is the first, or no writer is before it), done
//     (getsTheLock in article 004).
//  4. Read and watch the node that the rule names. If it does not exist any more, go to
//     3, because there would never be an event. Otherwise wait for the event, for a
//     change of the connection, or for ctx, then go to 3: an event reports that
//     something has changed, not what (internalLockLoop in article 004).
//  5. If ctx has ended, delete the node, in the background until it is deleted.
//
// A [RetryPolicy] limits how often 1 begins again; by default nothing but ctx does.
// [Mutex], [SemaphoreMutex], [ReadWrite] and [Latch] differ in their rule and in the
// owner. [Selector] is built on Mutex.
// One path is for one recipe: a queue counts the nodes of all.
//
// # How long a holder may rely on its hold
//
// ZooKeeper's servers end a session from which they have received nothing for its
// timeout, and the next one in the queue holds. The old holder must have stopped by
// then, although it may not be reachable. Therefore:
//
//   - The holder uses its own monotonic clock, counted from before a request was sent
//     that has been answered since ([Session.ConfirmedAt]): the servers count from later.
//   - It stops relying on its hold a margin before the timeout from then, and at once
//     when the connection breaks ([Mutex.Holding], [Latch.HasLeadership], the Selector's
//     context).
//   - go-zookeeper reports neither when its pings were answered nor the granted timeout. So
//     [Client] makes requests of its own, and reads the timeout from the server's first
//     answer.
//
// # What is not guaranteed
//
//   - That no two nodes believe they lead, if a process is stopped between its check and
//     its act. A place in a queue is no number that a write could be fenced by.
//   - With several servers, a follower reports the heartbeats of its sessions to the
//     server that leads only each half tick. A follower that is cut off in that time does
//     not report them. There, ask for a session that is longer by a tick.
//   - That a killed leader is replaced at once: its session lasts its timeout.
//     (Conclave's own strategy, termcas, is faster: a database frees a lock when its
//     connection breaks.)
//
// # Failures
//
//	the leader, killed         its session's timeout, then one waiter is woken
//	the leader, cut off        it stops at once or by its clock; then as above
//	a connection               the session continues on a new one; the leader is suspended meanwhile
//	a waiter                   the one that watched it looks again, and watches the one before it
package zklatch
