package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/fence"
	conclavesql "conclave/sql"
)

// A write takes effect while the term lasts under which it was decided, and changes
// nothing afterwards, however late it arrives.
func ExampleExec() {
	ctx := context.Background()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "orders"}
	election := electorfake.New() // yours: a row in MySQL, which DB.Migrate makes
	shop := election.DB(func(electorfake.Statement) (int64, error) { return 1, nil })
	defer shop.Close() // yours: a *sql.DB

	// A term. Usually an Elector plays the rounds, and Lead is given the term.
	strategy := election.Strategy() // yours: termcas.New
	me := elector.Candidate{ID: conclave.NodeID{Name: "worker-1", Incarnation: "1"}, Lease: 15 * time.Second, Beat: 5 * time.Second}
	term, err := strategy.Round(ctx, me, elector.Term{})
	must(err)

	token := fence.New(lock, term)
	n, err := fence.Exec(ctx, shop, token, "UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "paid", 7)
	fmt.Println("rows:", n, "error:", err)

	must(strategy.Resign(ctx, term)) // from now on another node may lead
	n, err = fence.Exec(ctx, shop, token, "UPDATE orders JOIN {fence} SET state = ? WHERE id = ?", "sent", 7)
	fmt.Println("rows:", n, "the term has ended:", errors.Is(err, fence.ErrTermEnded))
	// Output:
	// rows: 1 error: <nil>
	// rows: 0 the term has ended: true
}

// Several statements take effect under a term, or none of them does.
func ExampleTx() {
	ctx := context.Background()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "orders"}
	election := electorfake.New() // yours: a row in MySQL
	shop := election.DB(func(s electorfake.Statement) (int64, error) {
		fmt.Println(s.Query)
		return 1, nil
	})
	defer shop.Close() // yours: a *sql.DB
	token := fence.New(lock, election.Elect("worker-1"))

	pay := func() error {
		return fence.Tx(ctx, shop, token, nil, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = ?", 7); err != nil {
				return err // always: see Tx
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO payments (order_id) VALUES (?)", 7)
			return err
		})
	}
	fmt.Println("error:", pay())

	election.Elect("worker-2")
	fmt.Println("the term has ended:", errors.Is(pay(), fence.ErrTermEnded))
	// Output:
	// UPDATE orders SET state = 'paid' WHERE id = ?
	// INSERT INTO payments (order_id) VALUES (?)
	// COMMIT
	// error: <nil>
	// UPDATE orders SET state = 'paid' WHERE id = ?
	// INSERT INTO payments (order_id) VALUES (?)
	// ROLLBACK
	// the term has ended: true
}

// A child process of `conclave lead` finds its token in the environment.
func ExampleFromEnv() {
	token, err := fence.FromEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("this process works under", token)
	// Output: fence: invalid CONCLAVE_TERM "" (want a term): is this a child process of `conclave lead`?
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
