package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/cli"
	conclavesql "conclave/sql"
)

// watched is one line of `election watch`.
type watched struct {
	At           time.Time `json:"at"` // by the clock of this host
	Term         uint64    `json:"term"`
	Leader       string    `json:"leader"`           // empty if no node leads
	Silent       string    `json:"silent,omitempty"` // the one that leads by the row, and has not renewed for its lease
	Address      string    `json:"address,omitempty"`
	Cause        string    `json:"cause,omitempty"` // of the election, if it is recorded
	LeaderlessMs int64     `json:"leaderlessMs"`
	Error        string    `json:"error,omitempty"` // why the database does not answer
}

func (a *app) electionWatchCommand() *cobra.Command {
	var dsn, file string
	var every time.Duration
	lock := conclavesql.DefaultLock()
	cmd := &cobra.Command{
		Use: "watch --dsn-file F|--dsn DSN", Short: "Watch the election of a lock in any database", Args: want(),
		Long: `Print who leads a lock in a MySQL or MariaDB, and each change until Ctrl-C, from the
lock's own rows: another leader, none, one that has not renewed for its lease, or a
database that does not answer, with what to do about it. It takes no part in the
election, and its user needs SELECT only. A cluster shows its own with "election list".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := lock.Validate(); err != nil {
				return usageError{err}
			}
			if every < leastLease/3 {
				return usageError{fmt.Errorf("--every %v: want at least %v", every, leastLease/3)}
			}
			dsn, err := cli.DSN(dsn, file)
			if err != nil {
				return usageError{err}
			}
			db, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: every / 2})
			if err != nil {
				return usageError{err}
			}
			defer db.Close()
			return a.watchElection(cmd.Context(), db, lock, every)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dsn, "dsn", "", "database: user:password@tcp(host:port)/name (visible in the process list: prefer --dsn-file)")
	f.StringVar(&file, "dsn-file", "", "file with the DSN in its first line")
	f.StringVar(&lock.DataCenter, "data-center", lock.DataCenter, "Lock.DataCenter of the election")
	f.StringVar(&lock.Name, "lock", lock.Name, "Lock.Name of the election")
	f.DurationVar(&every, "every", time.Second, "how often to read the lock's row")
	return cmd
}

// watchElection prints the changes of an election until ctx ends, as an observer sees
// them.
func (a *app) watchElection(ctx context.Context, db *conclavesql.DB, lock conclavesql.Lock, every time.Duration) error {
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock, Takeover: termcas.Lease})
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{ID: candidate(), Strategy: strategy, Lease: 3 * every, Observer: true})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	changes := e.Changes(run)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(run) }() // joined on every return
	history := conclavesql.NewHistory(db, lock)
	for status := range changes {
		t := status.Term
		now := watched{At: time.Now(), Term: t.Number, Leader: t.Leader.String(), Address: t.Address}
		if status.Silent {
			now.Leader, now.Silent = "", now.Leader
		}
		if status.Err != nil {
			now.Error = status.Err.Error()
		} else if list, err := history.Before(run, t.Number+1, 1); err == nil && len(list) > 0 && list[0].Term == t.Number {
			now.Cause, now.LeaderlessMs = list[0].Cause, list[0].Leaderless.Milliseconds()
		}
		if err = a.show(now, func(w io.Writer) { line(w, "%s  %s", clock(now.At), now) }); err != nil {
			break // no reader is left
		}
	}
	stop()
	return cmp.Or(err, <-ended)
}

// String returns the line without its time.
func (w watched) String() string {
	switch {
	case w.Error != "":
		return "the database does not answer: " + w.Error
	case w.Silent != "":
		return fmt.Sprintf("no leader: %s has not renewed term %d for its lease", w.Silent, w.Term)
	case w.Leader == "":
		return fmt.Sprintf("no leader after term %d", w.Term)
	}
	text := fmt.Sprintf("%s leads term %d", w.Leader, w.Term)
	if w.Address != "" {
		text += " at " + w.Address
	}
	if w.Cause != "" {
		text += fmt.Sprintf(" (%s, %s without a leader)", w.Cause, ms(w.LeaderlessMs))
	}
	return text
}
