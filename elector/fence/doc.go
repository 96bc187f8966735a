// Package fence refuses the writes of an old leader to an application's own tables,
// if these are in the same MySQL database as the lock.
//
// A leader can be stopped between checking that it leads and writing what it decided:
// by a debugger, a machine that swaps, a network. When it continues, another node
// leads, and the write must not take effect. A check before the write cannot ensure
// that; a check inside the statement can. A [Token] is made from a term, and a
// statement that is joined with it changes rows only while that term lasts:
//
//	Lead: func(ctx context.Context, term elector.Term) error {
//		token := fence.New(lock, term)
//		n, err := fence.Exec(ctx, db, token,
//			"UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "paid", 7)
//		if errors.Is(err, fence.ErrTermEnded) { // another node leads: stop
//			return err
//		}
//		...
//
// {fence} stands for a table that has one row while the token is valid, and none
// afterwards. A statement that joins it or selects from it is fenced:
//
//	UPDATE orders JOIN {fence} SET state = ? WHERE id = ?
//	INSERT INTO payments (order_id, term) SELECT ?, fence.term FROM {fence}
//	INSERT IGNORE ... SELECT ... FROM {fence}           REPLACE INTO ... SELECT ... FROM {fence}
//	DELETE orders FROM orders JOIN {fence} WHERE id = ?
//
// Its columns are fence.owner and fence.term. Qualify columns of the same name with
// their table's name. Several statements in one transaction are fenced by [Tx], without
// the marker. A child process of `conclave lead` finds its token in the
// environment; see [FromEnv]. Besides its rights on its own tables, the program needs SELECT
// on distribute_lock.
//
// # Guarantees
//
//   - A statement of an older term changes no row, however late it is executed. The
//     lock row is held in share mode until the statement is complete, under every
//     isolation level: an election and the write wait for each other, and one of them
//     is first.
//   - [ErrTermEnded] distinguishes a term that has ended from a statement that matched
//     no row.
//
// # What is not guaranteed
//
//   - After any other error the write may have been applied, or may still be, while
//     the term lasts. That is so with every database and every statement.
//   - That a fenced statement in a transaction of your own does not delay the election.
//     The transaction holds the lock row until it ends: everything in it happens under
//     the term, but the leader's own renewals wait, and a process that is stopped in the
//     middle of it blocks the elections until the server ends its connection. [Tx] holds
//     the row for its COMMIT only, and for a second at most if the process is stopped.
//   - That it holds on Galera while the writer changes: a statement on another node can
//     be certified after the next win (docs/adr/0095).
//   - Anything about another database or service. Send Token.Term with the request,
//     and let the receiver refuse a term lower than it has seen.
//
// # Failures
//
//	the leader, before the statement    nothing is written
//	the leader, after it                the write is kept, under its term
//	the server                          an error; see above
package fence
