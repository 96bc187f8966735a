// Package oversell is article 004's shop, played for real: 1,500 buyers, 100 items, and
// one way after the other to keep the buyers apart.
//
//	read the stock ──▶ think ──▶ do I still hold? ──▶ write stock - 1 ──▶ write the order
//
// It is the classic lost update. The write does not ask whether the stock still is what
// was read: with a turn that is one buyer's alone it need not, and without one two
// buyers write the same number, and one purchase is forgotten. So every buyer "succeeds",
// and the stock hardly moves.
//
// The stock and the orders are two tables in MySQL, with a pool of their own, as a
// product has it. The buyers are goroutines of several workers; a worker stands for a
// process, with connections and sessions, an owner's name and a place in the election of
// its own.
//
// # The ways
//
//	no-lock                    nothing: it is to go wrong
//	row-condition              nothing, and `stock > 0` in the UPDATE: right, in one statement
//	rowlock-article            article 001 to the letter, one thread in a process
//	rowlock-article-threads    the same with many: its known fault
//	rowlock                    the repaired lock
//	zk-single                  one node of one name: each release wakes all
//	zk-mutex, zk-semaphore     the line: each release wakes one
//	term                       an election as a lock: lead, serve ten buyers, resign
//	rowlock-paused             a holder that is frozen for longer than its lease
//	  ..-token                 and a token in the stock's row
//	term-paused                a leader that is frozen for longer than its lease
//	  ..-fenced                and the write fenced by the term
//
// Article 003's election has no form as a lock: its leader is one for long, and is not
// told when to go; it is left out.
//
// # The frozen holder
//
// No lock with a lease can help who is stopped between looking whether he holds and
// writing: the lease goes on without him. Here the first buyer is alone with his
// process, and gets in before the others come:
//
//  1. He reads the stock, and looks: he holds.
//  2. His process is frozen: nothing that it says to the lock leaves, its sockets stay
//     open.
//  3. The others come. They get in when his lease has run out, and not before.
//  4. They have sold half. The last of them waits, inside, until the frozen one has
//     woken up and written what he read: the stock jumps back.
//  5. They sell what is, by the stock, left. Half the items are sold twice.
//
// That order is one of events; nothing sleeps and hopes. With a fence step 4 changes no
// row. The fence must be older than the reading: a token that first comes with the
// newcomer's write lets the old write in between his reading and his writing, and
// forgets one of them. So the token is claimed before the stock is read; a term in the
// lock's own row is there from the election on.
//
// # What is claimed
//
//	holds          orders, stock and buyers agree, nothing is oversold: else it is broken
//	oversells      something is oversold, because it was arranged: else it is broken
//	may oversell   up to the scheduler; nearly always it does
//
// # What is not guaranteed
//
//   - That times can be compared between ways. A lock's price is in its wake-ups and its
//     requests; the time is also the buyers' thoughts, the database and the machine.
//   - That a way with leases holds when the machine stalls for a lease: that is what
//     the paused ways show. The others have leases of 15 s, and nobody dies.
//   - A clean database: the tables stay, and a row of distribute_lock for each way with
//     terms. A run's own rows of the shop are deleted.
//
// # When a part dies
//
//	the database     the run ends with an error that names the way; nothing is judged
//	ZooKeeper        likewise, when its sessions or the limit of the way are over
//	the lab          its rows stay, under a number that no other run draws
package oversell
