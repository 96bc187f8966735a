package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/cli"
	conclavesql "conclave/sql"
)

func (a *app) migrateCommand() *cobra.Command {
	var dsn, file, metas string
	var lock conclavesql.Lock
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "migrate --dsn-file F|--dsn DSN", Short: "Bring a database's schema up to date", Args: want(),
		Long: `Create or change the tables of a cluster in a MySQL or MariaDB database, and the rows of
its lock. It may be repeated, and while a cluster runs.

The user of the DSN needs the privileges SELECT, INSERT, UPDATE, CREATE and ALTER. Metas
need only SELECT, INSERT and UPDATE; docs/databases.md has the GRANT statements. With
--metas-dsn-file the metas' user is created, or given the password in that file, with
these privileges; the user of the DSN needs CREATE USER and GRANT OPTION for that.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := lock.Validate(); err != nil {
				return usageError{err}
			}
			dsn, err := cli.DSN(dsn, file)
			if err != nil {
				return usageError{err}
			}
			metasDSN := ""
			if metas != "" {
				if metasDSN, err = cli.DSNFile("metas-dsn-file", metas); err != nil {
					return usageError{err}
				}
				if err := checkDSN(metasDSN); err != nil {
					return usageError{fmt.Errorf("--metas-dsn-file: %w", err)}
				}
			}
			db, err := conclavesql.Open(dsn, conclavesql.Options{})
			if err != nil {
				return usageError{fmt.Errorf("%s: %w", either(file == "", "--dsn", "--dsn-file"), err)}
			}
			defer db.Close()
			migrate := func(ctx context.Context, waiting waitingFunc) error {
				return db.MigrateWithin(ctx, lock, wait, waiting)
			}
			if err := a.awaitDatabase(cmd.Context(), db, wait, migrate); err != nil {
				return err
			}
			if metas != "" {
				err = db.EnsureUser(cmd.Context(), metasDSN)
			}
			switch {
			case errors.Is(err, conclavesql.ErrBadDSN):
				return usageError{fmt.Errorf("--metas-dsn-file: %w", err)}
			case err != nil:
				return err
			}
			shown := map[string]any{"database": db.Addr(), "version": conclavesql.SchemaVersion(), "lock": lock.String()}
			return a.show(shown, func(w io.Writer) {
				fmt.Fprintf(w, "schema %d in %s, lock %s\n", conclavesql.SchemaVersion(), db.Addr(), lock)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsn, "dsn", "", "database: user:password@tcp(host:port)/name (visible in the process list: prefer --dsn-file)")
	f.StringVar(&file, "dsn-file", "", "file with the DSN in its first line")
	f.StringVar(&metas, "metas-dsn-file", "", "file with the DSN of the metas, whose user is to have what they need")
	f.StringVar(&lock.DataCenter, "data-center", "default", "the metas' --data-center")
	f.StringVar(&lock.Name, "lock", conclavesql.DefaultLockName, "name of the lock, if it is not a cluster's")
	f.DurationVar(&wait, "db-wait", time.Minute, "how long to wait for the database")
	return cmd
}
