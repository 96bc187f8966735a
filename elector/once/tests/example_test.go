package once_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/elector/once"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// Two processes have a job for each day. One of them runs it, and the other sees how it
// ended.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	dsn, stop := mysqltest.ForExample() // yours: user:password@tcp(host:3306)/shop
	defer stop()
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	must(err)
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "report"}
	must(db.Migrate(ctx, lock)) // makes the table; safe to repeat

	one := once.Job{DB: db, Lock: lock, Every: 24 * time.Hour, Name: "one"}
	must(one.Run(ctx, func(_ context.Context, run once.Run) error {
		fmt.Println("run", run.Number)
		cancel() // the process stops
		return errors.New("no paper")
	}))

	other := once.Job{DB: db, Lock: lock, Every: 24 * time.Hour, Name: "other"}
	last, err := other.Last(context.Background())
	must(err)
	fmt.Println("run", last.Number, "failed:", last.Failure)
	fmt.Println("may run again today:", last.Next == 0)
	// Output:
	// run 1
	// run 1 failed: no paper
	// may run again today: false
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
