package electorfake_test

import (
	"context"
	"errors"
	"fmt"

	"conclave"
	"conclave/elector"
	"conclave/elector/electorfake"
	"conclave/elector/fence"
)

// A program is given its Strategy and its database, and so a test can give it others.
// Here its work stands in for the program: it pays bills while it leads.
func Example() {
	election := electorfake.New()
	db := election.DB(func(s electorfake.Statement) (int64, error) {
		fmt.Println("paid", s.Args, "in term", s.Term)
		return 1, nil
	})
	defer db.Close()

	pay, paid := make(chan string), make(chan error)
	e, err := elector.New(elector.Config{
		ID: conclave.NodeID{Name: "worker-1"}, Strategy: election.Strategy(),
		Lead: func(ctx context.Context, term elector.Term) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case bill := <-pay:
					_, err := fence.Exec(ctx, db, fence.New(lock, term), "UPDATE bills JOIN {fence} SET paid = 1 WHERE id = ?", bill)
					paid <- err
					if err != nil {
						return err
					}
				}
			}
		},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()

	pay <- "bill-1"
	<-paid
	election.Elect("another") // as if this process had slept for longer than its lease
	pay <- "bill-2"           // it believes that it leads
	fmt.Println("refused:", errors.Is(<-paid, fence.ErrTermEnded))
	election.Resign()
	pay <- "bill-3" // it leads again
	<-paid
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// paid [bill-1] in term 1
	// refused: true
	// paid [bill-3] in term 3
	// ended: <nil>
}
