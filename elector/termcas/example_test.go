package termcas_test

import (
	"context"
	"log"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// A process takes part in an election on its own MySQL. Folder tests has this example
// with a leader that crashes.
func Example() {
	ctx := context.Background()                                                             // yours: signal.NotifyContext
	db, err := conclavesql.Open("user:password@tcp(host:3306)/shop", conclavesql.Options{}) // one pool for each process
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"}
	if err := db.Migrate(ctx, lock); err != nil { // makes the tables and the lock's row; safe to repeat
		log.Fatal(err)
	}
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{ID: conclave.NodeID{Name: "worker-1"}, Strategy: strategy, Lead: lead})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// lead works until its term ends.
func lead(ctx context.Context, term elector.Term) error {
	log.Println("leading term", term.Number)
	<-ctx.Done()
	return nil
}
