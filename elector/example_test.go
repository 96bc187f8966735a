package elector_test

import (
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/fence"
	conclavesql "conclave/sql"
)

// One process of an application does the nightly work. The writes are fenced by the term: a
// process that was stopped and continues too late writes nothing. This one elects in memory;
// elector/example is the same program on MySQL.
func Example() {
	ctx, sigterm := context.WithCancel(context.Background()) // yours: signal.NotifyContext
	election := electorfake.New()

	// 1. The lock: a row in the application's database.
	lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"} // yours: and DB.Migrate
	strategy := election.Strategy()                               // yours: termcas.New
	shop := election.DB(func(s electorfake.Statement) (int64, error) { return 1, nil })
	defer shop.Close() // yours: a *sql.DB

	// 2. Take part in the election. Lead is called when this process leads, and its
	// context ends when it stops leading.
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
		Strategy: electorfake.New().Strategy(), // any Strategy
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
