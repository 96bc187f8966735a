// Package oversell runs article 004's shop: 1,500 buyers, 100 items, and one
// way after the other to make the buyers take turns.
//
//	read the stock ──▶ think ──▶ still hold the lock? ──▶ write stock - 1 ──▶ write the order
//
// Without a lock it is the classic lost update. The write does not check that
// the stock still is what was read: with a turn that one buyer has alone this
// is not needed, and without one two buyers write the same number, and one
// purchase is lost. So every buyer "succeeds", and the stock hardly moves.
//
// The stock and the orders are two tables in MySQL, with a pool of their own,
// as in a real product. The buyers are goroutines of several workers. A worker
// stands for a process: it has its own connections, sessions and owner name.
//
// [Ways] has the ways and what each is expected to do.
//
// # The frozen holder
//
// No lock with a lease protects against a holder that is stopped between its
// check and its write, because the lease expires meanwhile. Here the first
// buyer is alone in its process, and has its turn before the others come:
//
//  1. It reads the stock and checks that it holds the lock.
//  2. Its process is frozen: it does nothing, and refreshes its lock no more.
//  3. The others come. They get the lock when its lease has expired, and not
//     before.
//  4. They buy half the items. The last of them waits, in its turn, until the
//     frozen buyer has continued and written what it read: the stock jumps
//     back.
//  5. They buy what is left according to the stock. Half the items are sold
//     twice.
//
// The order comes from events, not from sleeps. With a token, step 4 changes no
// row. The token must be in the row before the next holder reads it: if it
// came only with that holder's write, the old write could take effect between
// its read and its write, and one purchase would be lost.
//
// # What is not guaranteed
//
//   - Times cannot be compared between ways. The cost of a lock is its wake-ups
//     and its requests; the time also contains the buyers' thinking, the
//     database and the machine.
//   - A way with leases may fail if the machine stalls for a lease, as the
//     paused ways show. Except for the frozen process, leases are 15 s.
//   - The tables of the database stay. The run's own rows of the shop are deleted.
//
// # When a part dies
//
//	the database     the run ends with an error that names the way
//	ZooKeeper        the same, when its sessions have expired or the way's limit
//	                 has passed
//	the lab          its rows stay, under a random name that no other run uses
package oversell
