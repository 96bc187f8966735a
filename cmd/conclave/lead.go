package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// leadLock is the lock of who names none. It is not the cluster's own.
const leadLock = "conclave-lead"

// standing is what `lead` was told.
type standing struct {
	dsn, dsnFile, lock string
	lease, dbWait      time.Duration
	once               bool
	command            []string // CMD, its program looked up
}

func (a *app) leadCommand() *cobra.Command {
	var s standing
	cmd := &cobra.Command{
		Use:   "lead --dsn DSN|--dsn-file F [flags] -- CMD...",
		Short: "Run a command while this node leads a lock in any MySQL",
		Long: `Stands for the leadership of a lock in any MySQL or MariaDB, and runs CMD while it
leads: on one of all the nodes that stand for it.

CMD finds its term in CONCLAVE_TERM, and the rest of the token for fenced writes in
CONCLAVE_OWNER, CONCLAVE_LOCK and CONCLAVE_DATA_CENTER (package conclave/elector/fence).
When the leadership ends, or is about to because the database does not answer, CMD and
all that it started get SIGTERM and, before anybody else can lead, SIGKILL. When CMD ends
by itself the leadership is handed over, and the node stands again; with --once the tool
ends, with CMD's exit code, after the first leadership (128 + the signal, if one ended
CMD). SIGTERM and Ctrl-C hand over, and wait for CMD; a second one kills it.

CMD has no standard input, and a process group of its own. When this tool is killed with
-9, CMD is killed, too (on Linux), but not what CMD has started; and a tool that is itself
frozen (SIGSTOP) stops nobody. Fenced writes are refused in both cases.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() != 0 {
				return errors.New("lead takes CMD after two dashes: conclave lead --dsn DSN -- CMD")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return usageError{err}
			}
			s.command = append([]string{path}, args[1:]...)
			return a.lead(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.dsn, "dsn", "", "database: user:password@tcp(host:port)/name (shown to whoever lists processes: prefer --dsn-file)")
	f.StringVar(&s.dsnFile, "dsn-file", "", "file whose first line is the DSN")
	f.StringVar(&s.lock, "lock", leadLock, "name of the lock; nodes with the same one stand for the same leadership")
	f.DurationVar(&s.lease, "lease", 3*time.Second, "how long the others wait for a node that fell silent")
	f.BoolVar(&s.once, "once", false, "end after the first leadership, with CMD's exit code")
	f.DurationVar(&s.dbWait, "db-wait", time.Minute, "how long to wait for the database at the start")
	return cmd
}

// lead stands for the leadership until a signal, or with --once until the first one is
// over.
func (a *app) lead(ctx context.Context, s standing) error {
	log := hclog.New(&hclog.LoggerOptions{Name: "lead", Output: a.stderr, Level: hclog.Info, TimeFormat: "15:04:05.000"})
	lock := conclavesql.Lock{DataCenter: conclavesql.DefaultDataCenter, Name: s.lock}
	if err := lock.Validate(); err != nil {
		return usageError{fmt.Errorf("--lock: %w", err)}
	}
	if s.lease < leastLease {
		return usageError{fmt.Errorf("--lease %v: want at least %v", s.lease, leastLease)}
	}
	dsn, err := s.source()
	if err != nil {
		return err
	}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: s.lease / 6})
	if err != nil {
		return usageError{err}
	}
	defer db.Close()
	// No witness: a takeover within milliseconds is not worth a moment in which two
	// commands run. By the lease alone no two beliefs overlap.
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock, Takeover: termcas.Lease, Logger: log})
	if err != nil {
		return err
	}
	w := &worker{standing: s, leads: lock, log: log, stdout: a.stdout, stderr: a.stderr, hurry: make(chan struct{}), finished: make(chan error, 1)}
	w.elector, err = elector.New(elector.Config{ID: candidate(), Strategy: strategy, Lease: s.lease, Lead: w.lead, Logger: log})
	if err != nil {
		return usageError{err}
	}
	if err := migrate(ctx, db, lock, s.dbWait, log); err != nil {
		if ctx.Err() != nil {
			return w.stopped()
		}
		return err
	}

	ended := make(chan error, 1)
	go func() { ended <- w.elector.Run(context.WithoutCancel(ctx)) }() // joined below, on every way out
	select {
	case <-ctx.Done():
		log.Info("handing over: waiting for the command to end")
	case first := <-w.finished:
		w.finished <- first // for stopped
	case err := <-ended:
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	shut := make(chan error, 1)
	go func() { shut <- w.elector.Shutdown(context.WithoutCancel(ctx)) }()
	select {
	case err = <-shut:
	case <-again:
		close(w.hurry)
		err = <-shut
	}
	if err != nil {
		log.Warn("the others wait for the lease", "error", err)
	}
	return errors.Join(<-ended, w.stopped())
}

// source is the DSN itself.
func (s *standing) source() (string, error) {
	switch {
	case s.dsn != "" && s.dsnFile != "":
		return "", usageError{errors.New("--dsn and --dsn-file exclude each other")}
	case s.dsn != "":
		return s.dsn, nil
	case s.dsnFile == "":
		return "", usageError{errors.New("--dsn or --dsn-file is needed")}
	}
	body, err := os.ReadFile(s.dsnFile)
	if err != nil {
		return "", usageError{fmt.Errorf("--dsn-file: %w", err)}
	}
	line, _, _ := strings.Cut(string(body), "\n")
	return strings.TrimSpace(line), nil
}

// migrate waits for the database, and makes the lock's row.
func migrate(ctx context.Context, db *conclavesql.DB, lock conclavesql.Lock, limit time.Duration, log hclog.Logger) error {
	began, said := time.Now(), time.Time{}
	for {
		// A server that accepts and says nothing must not hold one try for ever.
		try, cancel := context.WithTimeout(ctx, min(max(limit-time.Since(began), time.Second), 5*time.Second))
		err := db.Migrate(try, lock)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, conclavesql.ErrUnavailable):
			return err
		case time.Since(began) >= limit:
			return fmt.Errorf("the database at %s was not there within --db-wait %v: %w: %w", db.Addr(), limit, errTimedOut, err)
		}
		if time.Since(said) >= 5*time.Second {
			said = time.Now()
			log.Warn("the database is not there yet", "database", db.Addr(), "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(100*time.Millisecond, limit/10+time.Millisecond)):
		}
	}
}

// strange is what may not be in a node's name.
var strange = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// candidate is this process in the election: the host's name and the process's number,
// for people, and an incarnation that nobody else draws.
func candidate() conclave.NodeID {
	host, err := os.Hostname()
	if host = strings.Trim(strange.ReplaceAllString(host, "-"), "-"); err != nil || host == "" {
		host = "host"
	}
	var seed [8]byte
	rand.Read(seed[:])
	random := mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(seed[:]), uint64(os.Getpid())))
	return conclave.NodeID{
		Name:        fmt.Sprintf("%.40s-%d", host, os.Getpid()),
		Incarnation: conclave.NewIncarnation(random),
	}
}
