package once_test

import (
	"context"
	"database/sql"
	"log"
	"os/signal"
	"syscall"
	"time"

	"conclave/elector/fence"
	"conclave/elector/once"
	conclavesql "conclave/sql"
)

// Each copy of the program does this. One of them writes the report of each hour.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := conclavesql.Open("user:password@tcp(host:3306)/shop", conclavesql.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "report"}
	if err := db.Migrate(ctx, lock); err != nil { // makes the table; safe to repeat
		log.Fatal(err)
	}
	var shop *sql.DB // yours
	job := once.Job{DB: db, Lock: lock, Every: time.Hour}
	err = job.Run(ctx, func(ctx context.Context, run once.Run) error {
		log.Println("run", run.Number, "left out before it:", run.Missed)
		_, err := fence.Exec(ctx, shop, run.Token, "INSERT INTO reports (run) SELECT fence.term FROM {fence}")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
