package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
	"conclave/testbed/local/supervisor"
)

// errLabInterrupted is the error of a run whose context has ended.
var errLabInterrupted = errors.New("interrupted")

// labDatabase checks the flags of both labs: the DSN, and whether ZooKeeper can be
// reached. Then it returns the database of --db: an existing server, or an embedded one
// in this process. name is its name in reports, empty for an existing server.
func (a *app) labDatabase(ctx context.Context, db, zookeeper string) (dsn, name string, end func() error, err error) {
	if err := checkDatabase(db); err != nil {
		return "", "", nil, err
	}
	if zookeeper != "" {
		if err := checkAddresses("--zookeeper", zookeeper); err != nil {
			return "", "", nil, err
		}
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", zookeeper) // its client tries again and again and does not report why
		if err != nil {
			return "", "", nil, fmt.Errorf("--zookeeper: %w", err)
		}
		conn.Close()
	}
	if db != supervisor.Embedded {
		return db, "", func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", nil, err
	}
	server, err := devdb.New(devdb.Config{Listener: listener})
	if err != nil {
		return "", "", nil, errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.WithoutCancel(ctx)) }() // until end, also after Ctrl-C
	end = func() error {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(server.Shutdown(grace), <-ended)
	}
	return server.DSN(), "embedded (devdb, in memory)", end, nil
}

// askDatabase reads the row that a query returns from a database.
func askDatabase(ctx context.Context, dsn, query string, row ...any) error {
	db, err := conclavesql.OpenPool(dsn, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := db.QueryRowContext(ctx, query).Scan(row...); err != nil {
		return fmt.Errorf("ask the database (%s): %w", query, err)
	}
	return nil
}
