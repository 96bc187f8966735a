package elector_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// An application with its own MySQL lets one of its processes do the nightly work. The
// writes are fenced by the term: a process that was stopped and continues too late writes
// nothing.
func Example() {
	ctx, sigterm := context.WithCancel(context.Background()) // yours: signal.NotifyContext
	dsn, stop := mysqltest.ForExample()                      // yours: user:password@tcp(host:3306)/shop
	defer stop()
	shop, err := stdsql.Open("mysql", dsn) // the application's own connections
	must(err)
	defer shop.Close()
	_, err = shop.Exec("CREATE TABLE nights (night date PRIMARY KEY, worker varchar(64), term bigint unsigned)")
	must(err)

	// 1. The lock: a row in the application's database.
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	must(err)
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"}
	must(db.Migrate(ctx, lock))

	// 2. Take part in the election. Lead is called when this process leads, and its
	// context ends when it stops leading.
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
	must(err)
	worked := make(chan struct{})
	me := conclave.NodeID{Name: "worker-1"} // New draws the incarnation
	e, err := elector.New(elector.Config{ID: me, Strategy: strategy, Lease: 15 * time.Second, Lead: func(ctx context.Context, term elector.Term) error {
		// 3. Write under the term.
		n, err := fence.Exec(ctx, shop, fence.New(lock, term),
			"INSERT INTO nights (night, worker, term) SELECT ?, ?, fence.term FROM {fence}", "2026-11-21", me.Name)
		fmt.Println("leading", term.Number, "rows written:", n, "error:", err)
		close(worked)
		<-ctx.Done()
		fmt.Println("not leading:", context.Cause(ctx))
		return nil
	}})
	must(err)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-worked

	// 4. Stop: the term is handed over, and another process leads within milliseconds.
	sigterm()
	must(<-ended)
	// Output:
	// leading 1 rows written: 1 error: <nil>
	// not leading: resigned
}

// Changes can feed a status page or a health check.
func ExampleElector_Changes() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := elector.New(elector.Config{
		ID:       conclave.NodeID{Name: "worker-1", Incarnation: "1"},
		Strategy: strategy{&store{}}, // any Strategy
	})
	must(err)
	changes := e.Changes(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for status := range changes {
		fmt.Println(status)
		if status.State != elector.Leading {
			break
		}
		go e.Shutdown(ctx)
	}
	must(<-ended)
	// Output:
	// leading, term 1 of worker-1@1 (first)
	// resigning, term 1 of worker-1@1 (resigned)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
