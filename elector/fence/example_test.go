package fence_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// A write takes effect while the term lasts under which it was decided, and changes
// nothing afterwards, however late it arrives.
func ExampleExec() {
	ctx := context.Background()
	dsn, stop := mysqltest.ForExample() // yours: user:password@tcp(host:3306)/shop
	defer stop()
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	must(err)
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "orders"}
	must(db.Migrate(ctx, lock))

	// A term. Usually an Elector plays the rounds, and Lead is given the term.
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
	must(err)
	defer strategy.Close()
	me := elector.Candidate{ID: conclave.NodeID{Name: "worker-1", Incarnation: "1"}, Lease: 15 * time.Second, Beat: 5 * time.Second}
	term, err := strategy.Round(ctx, me, elector.Term{})
	must(err)

	shop, err := stdsql.Open("mysql", dsn) // the application's own connections
	must(err)
	defer shop.Close()
	_, err = shop.Exec("CREATE TABLE orders (id int PRIMARY KEY, state varchar(16))")
	must(err)
	_, err = shop.Exec("INSERT INTO orders VALUES (7, 'new')")
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
