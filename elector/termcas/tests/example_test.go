package termcas_test

import (
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// Two processes take part in an election. When the leader crashes, the server frees
// its named lock, and the other process leads without waiting for the lease.
func Example() {
	ctx := context.Background()
	dsn, stop := mysqltest.ForExample() // yours: user:password@tcp(host:3306)/shop
	defer stop()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"}

	start := func(name string) (e *elector.Elector, strategy *termcas.Strategy, crash func()) {
		db, err := conclavesql.Open(dsn, conclavesql.Options{}) // one pool for each process
		must(err)
		must(db.Migrate(ctx, lock)) // makes the tables and the lock's row; safe to repeat
		strategy, err = termcas.New(termcas.Config{DB: db, Lock: lock})
		must(err)
		e, err = elector.New(elector.Config{ID: conclave.NodeID{Name: name}, Strategy: strategy, Lease: time.Minute,
			HandOver: elector.NoHandOver}) // to crash; otherwise the end of the context hands over
		must(err)
		run, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(run) }()
		return e, strategy, func() { cancel(); <-ended; must(db.Close()) }
	}
	leads := func(e *elector.Elector) elector.Term {
		for {
			if term, leading := e.Leading(); leading {
				return term
			}
			time.Sleep(time.Millisecond)
		}
	}

	one, _, crash := start("worker-1")
	term := leads(one)
	fmt.Println(term.Leader.Name, "leads term", term.Number)

	two, strategy, crashTwo := start("worker-2")
	defer crashTwo()
	for strategy.WaitingFor() != term.Number { // it waits for the leader's named lock
		time.Sleep(time.Millisecond)
	}
	crash()
	term = leads(two)
	fmt.Println(term.Leader.Name, "leads term", term.Number, "because the other was", term.Cause)
	// Output:
	// worker-1 leads term 1
	// worker-2 leads term 2 because the other was killed
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
