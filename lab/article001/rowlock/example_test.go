package rowlock_test

import (
	"context"
	"fmt"
	"time"

	"conclave"
	"conclave/lab/article001/rowlock"
	conclavesql "conclave/sql"
)

// A lock for any key, held by one process at a time. (It needs a MySQL, so that its output
// is not compared.)
func ExampleLocks() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := conclavesql.Open("user:password@tcp(host:3306)/shop", conclavesql.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := rowlock.Migrate(ctx, db); err != nil {
		panic(err)
	}
	locks, err := rowlock.NewLocks(rowlock.LocksConfig{DB: db, Owner: conclave.NodeID{Name: "worker-1", Incarnation: "1f00"}})
	if err != nil {
		panic(err)
	}
	go locks.Run(ctx) // refreshes the locks that are held

	lock, err := locks.Acquire(ctx, "order 7")
	if err != nil {
		panic(err)
	}
	defer lock.Release(ctx)
	for lock.Held() { // check before each act, and store lock.Token() with it
		fmt.Println("working under token", lock.Token())
		select {
		case <-lock.Lost():
		case <-time.After(time.Second):
		}
	}
}
