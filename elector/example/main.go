package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/sql"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: example DSN NAME")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dsn, name := os.Args[1], os.Args[2]
	lock := sql.Lock{DataCenter: "shop", Name: "nightly"}
	db := must(sql.Open(dsn, sql.Options{})) // connections of the election's own
	check(db.Migrate(ctx, lock))             // its tables and the row of the lock, if they are missing
	shop := must(stdsql.Open("mysql", dsn))  // your connections
	must(shop.Exec("CREATE TABLE IF NOT EXISTS work (id int AUTO_INCREMENT PRIMARY KEY, at datetime, worker varchar(64), term bigint unsigned)"))

	strategy := must(termcas.New(termcas.Config{DB: db, Lock: lock, Logger: slog.Default()}))
	lead := func(ctx context.Context, term elector.Term) error { // ctx ends when this process stops leading
		for {
			// The write of a leader whose term has ended changes no row. A write that has begun is completed, within a second.
			write, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_, err := fence.Exec(write, shop, fence.New(lock, term),
				"INSERT INTO work (at, worker, term) SELECT UTC_TIMESTAMP(), ?, fence.term FROM {fence}", name)
			done()
			switch {
			case errors.Is(err, fence.ErrTermEnded):
				return err // another process leads
			case err != nil:
				slog.Error("not worked", "error", err) // and again: the term outlives a restart of the database
			default:
				fmt.Println(name, "worked in term", term.Number)
			}
			select {
			case <-ctx.Done():
				return nil // only now the term is handed over
			case <-time.After(time.Second):
			}
		}
	}
	e := must(elector.New(elector.Config{ID: conclave.NodeID{Name: name}, Strategy: strategy, Lead: lead, Logger: slog.Default()}))
	check(e.Run(ctx)) // until SIGTERM or Ctrl-C, at which another process leads within milliseconds
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
