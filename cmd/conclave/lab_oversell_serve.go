package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/lab/oversell"
	"conclave/testbed/local/supervisor"
)

func (a *app) labOversellServeCommand() *cobra.Command {
	cfg := oversell.DefaultStoreConfig()
	var db, listen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the shop over HTTP, for a load of your own", Args: want(),
		Long: `Serve the shop of article 004 by the article's own endpoint, with its stock in the
article's own table goods_stock, until it is interrupted:

  GET /goods-stock/1   buy one; the replies are the article's
  GET /goods-stock     the stock, and how many purchases succeeded (JSON)

At its end it prints how many purchases succeeded, what the stock is, and whether more
were sold than there were. Exit with 1 if a way that must not oversell does.

--db DSN names a MySQL database in which tables are created; they are not removed, but
the row of the goods is. Without it an embedded one is started (the program devdb).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.oversellServe(cmd.Context(), cfg, db, listen)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "address to listen on (HOST:PORT; port 0: any)")
	f.StringVar(&cfg.Way, "way", cfg.Way, "the lock: "+strings.Join(oversell.StoreWays(), ", "))
	f.IntVar(&cfg.GoodsNo, "goods", cfg.GoodsNo, "number of the goods (goods_no)")
	f.IntVar(&cfg.Items, "items", cfg.Items, "stock at the beginning")
	f.DurationVar(&cfg.Think, "think", cfg.Think, "maximum time between a request's read and write; 1s in the article")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "number of sessions that the requests share")
	f.StringVar(&db, "db", "embedded", "embedded or a MySQL database (DSN)")
	f.StringVar(&cfg.ZooKeeper, "zookeeper", "", "HOST:PORT of a real ZooKeeper for the locks based on it")
	atLeast1(f, "items")
	return cmd
}

func (a *app) oversellServe(ctx context.Context, cfg oversell.StoreConfig, db, listen string) (err error) {
	cfg.DSN = db
	if err := cfg.Validate(); err != nil { // before a database is started
		return usageError{err}
	}
	if host, err := hostOf("--listen", listen); err != nil || host == "" {
		return usageError{fmt.Errorf("--listen %q: want HOST:PORT, for example 127.0.0.1:8080", listen)}
	}
	if err := checkLab(ctx, db, cfg.ZooKeeper); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close() // the server has closed it, unless it was never started
	dsn, _, end, err := a.labDatabase(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	cfg.DSN = dsn
	store, err := oversell.NewStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()

	served := serving{URL: "http://" + listener.Addr().String(), Way: cfg.Way, GoodsNo: cfg.GoodsNo, Items: cfg.Items}
	if db == supervisor.Embedded { // another DSN may have a password
		served.Database = dsn
	}
	if err := a.show(served, served.write); err != nil {
		return err
	}
	servedErr := serveUntil(ctx, listener, store)
	sales, err := store.Sales(context.WithoutCancel(ctx))
	if err != nil {
		return errors.Join(servedErr, err)
	}
	err = a.show(sales, func(w io.Writer) { writeSales(w, sales) })
	if err = errors.Join(servedErr, err); err != nil {
		return err
	}
	if sales.Broken() {
		return fmt.Errorf("%s did not behave as expected: %s", sales.Way, sales.Verdict())
	}
	return nil
}

// serveUntil serves until ctx ends. Then requests that wait for their turn are
// ended, and those that have it are finished.
func serveUntil(ctx context.Context, listener net.Listener, store http.Handler) error {
	server := &http.Server{
		Handler: store, ReadHeaderTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := server.Shutdown(limited)
	if err != nil {
		err = errors.Join(err, server.Close()) // a request or a connection did not end in time
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// serving is what a served shop prints when it is ready.
type serving struct {
	URL      string `json:"url"`
	Way      string `json:"way"`
	GoodsNo  int    `json:"goodsNo"`
	Items    int    `json:"items"`
	Database string `json:"database,omitempty"` // the DSN of an embedded one
}

func (s serving) write(w io.Writer) {
	fmt.Fprintf(w, "Selling %d items of goods %d, way %s.\n\n", s.Items, s.GoodsNo, s.Way)
	fmt.Fprintf(w, "buy one    curl %s/goods-stock/%d\n", s.URL, s.GoodsNo)
	fmt.Fprintf(w, "the load   ulimit -n 8192; ab -n 1500 -c 1500 -s 300 %s/goods-stock/%d\n", s.URL, s.GoodsNo)
	fmt.Fprintf(w, "counts     curl %s/goods-stock\n", s.URL)
	if s.Database != "" {
		fmt.Fprintf(w, "database   %s, table goods_stock\n", s.Database)
	}
	fmt.Fprint(w, "\nInterrupt (Ctrl-C) for the result.\n")
}

func writeSales(w io.Writer, s oversell.Sales) {
	t := newTable("REQUESTS", "SUCCEEDED", "SOLD OUT", "FAILED", "ERRORS", "GIVEN UP", "STOCK", "DEDUCTED", "OVERSOLD", "LOST")
	t.add(s.Requests, s.Succeeded, s.SoldOut, s.Failed+s.Unknown, s.Errors, s.GivenUp, s.Stock, s.Deducted, s.Oversold, s.Lost)
	t.write(w)
	fmt.Fprintf(w, "\n%s: %s\n", s.Way, s.Verdict())
}
