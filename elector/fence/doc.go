// Package fence keeps an old leader's writes out of your own tables, which are in the
// same MySQL as the lock.
//
// A leader can be stopped between looking whether it leads and writing what it
// decided: by a debugger, a swapped-out machine, a network. When it goes on, somebody
// else leads, and the write must not land. No check before a write can forbid that;
// one inside the statement can. A term gives a [Token], and a statement that is joined
// with it changes rows while that term lasts, or none:
//
//	Lead: func(ctx context.Context, term elector.Term) error {
//		token := fence.New(lock, term)
//		n, err := fence.Exec(ctx, db, token,
//			"UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "paid", 7)
//		if errors.Is(err, fence.ErrOver) { // somebody else leads: stop
//			return err
//		}
//		...
//
// {fence} stands for a table: it has one row while the token holds, and none
// afterwards. Join it, or select from it, and the statement is guarded:
//
//	UPDATE orders JOIN {fence} SET state = ? WHERE id = ?
//	INSERT INTO payments (order_id, term) SELECT ?, fence.term FROM {fence}
//	INSERT IGNORE ... SELECT ... FROM {fence}           REPLACE INTO ... SELECT ... FROM {fence}
//	DELETE orders FROM orders JOIN {fence} WHERE id = ?
//
// Its columns are fence.owner and fence.term. A column of yours with one of these names
// is written with its table's. A child of `conclave lead` finds its token in the
// environment: [FromEnv].
//
// # Guarantees
//
//   - A statement of an older term changes no row, however late it comes, and
//     whatever its sender believes. The lock row is held in share mode until the
//     statement is through, under every isolation level: an election and the write
//     wait for each other, and one of them is first.
//   - [ErrOver] tells "the term is over" from "nothing matched".
//
// # What is not guaranteed
//
//   - After any other error the write may have been applied, or may be later: while
//     the term lasts. That is so with every database and every statement.
//   - Transactions, for the sake of the others. In one, the lock row is held until it
//     ends: everything in it is then under the term (good), and the leader's own
//     renewals wait (bad). Keep it far shorter than the lease. Who is stopped in the
//     middle of one stops the elections, until the server ends his connection.
//   - Anything about another database, or a service. Send Token.Term with the request,
//     and let the receiver refuse what is lower than it has seen.
//
// # When a part dies
//
//	the leader, before the statement    nothing is written
//	the leader, after it                the write stands, under its term
//	the server                          an error; see above
package fence
