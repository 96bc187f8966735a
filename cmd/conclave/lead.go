package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"conclave"
	"conclave/elector"
	"conclave/elector/fence"
	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/internal/logging"
	conclavesql "conclave/sql"
)

// leadLock is the default lock. It is not the lock of the cluster.
const leadLock = "conclave-lead"

// leadOptions are the flags and the command of `lead`.
type leadOptions struct {
	dsn, dsnFile  string
	lock          conclavesql.Lock
	lease, dbWait time.Duration
	once          bool
	command       []string // CMD, with the path of its program
}

func (a *app) leadCommand() *cobra.Command {
	s := leadOptions{lock: conclavesql.Lock{DataCenter: conclavesql.DefaultDataCenter, Name: leadLock}}
	cmd := &cobra.Command{
		Use:   "lead --dsn DSN|--dsn-file F [flags] -- CMD...",
		Short: "Run a command while this node holds a lock in MySQL",
		Long: `Take part in the election for a lock in any MySQL or MariaDB, and run CMD while this
node leads. Of all nodes that take part, one runs CMD.

CMD gets its term in CONCLAVE_TERM, and the rest of the token for fenced writes in
CONCLAVE_OWNER, CONCLAVE_LOCK and CONCLAVE_DATA_CENTER (package conclave/elector/fence).
When the leadership ends, or is about to end because the database does not answer, CMD
and its process group get SIGTERM and, before another node can lead, SIGKILL. When CMD
ends by itself, the leadership is handed over and the node takes part again. With --once
the tool ends after the first leadership with CMD's exit code (128 + the signal, if one
ended CMD). SIGTERM and Ctrl-C hand over and wait for CMD; a second one kills CMD.

CMD has no standard input and its own process group. If this tool is killed with -9, CMD
is killed as well (on Linux), but not the processes that it has started. If this tool is
suspended (SIGSTOP), CMD continues. Fenced writes are refused in both cases.`,
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
	f.StringVar(&s.dsn, "dsn", "", "database: user:password@tcp(host:port)/name (visible in the process list: prefer --dsn-file)")
	f.StringVar(&s.dsnFile, "dsn-file", "", "file with the DSN in its first line")
	f.StringVar(&s.lock.DataCenter, "data-center", s.lock.DataCenter, "Lock.DataCenter of the election")
	f.StringVar(&s.lock.Name, "lock", s.lock.Name, "Lock.Name of the election; nodes with the same lock elect one leader")
	f.DurationVar(&s.lease, "lease", 3*time.Second, "how long other nodes wait before they replace a leader without renewals")
	f.BoolVar(&s.once, "once", false, "end after the first leadership, with CMD's exit code")
	f.DurationVar(&s.dbWait, "db-wait", time.Minute, "how long to wait for the database at startup")
	return cmd
}

// lead takes part in the election until a signal, or with --once until the end
// of the first leadership.
func (a *app) lead(ctx context.Context, s leadOptions) error {
	log := a.logger("lead")
	if err := s.lock.Validate(); err != nil {
		return usageError{err}
	}
	if s.lease < leastLease {
		return usageError{fmt.Errorf("--lease %v: want at least %v", s.lease, leastLease)}
	}
	dsn, err := cli.DSN(s.dsn, s.dsnFile)
	if err != nil {
		return usageError{err}
	}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: s.lease / 6})
	if err != nil {
		return usageError{err}
	}
	defer db.Close()
	// No witness: with the lease alone, perceived leaderships never overlap, so
	// two commands never run at the same time. That is worth a slower takeover.
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: s.lock, Takeover: termcas.Lease, Logger: logging.Slog(log)})
	if err != nil {
		return err
	}
	w := &worker{leadOptions: s, log: log, stdout: a.stdout, stderr: a.stderr, hurry: make(chan struct{}), finished: make(chan error, 1)}
	w.elector, err = elector.New(elector.Config{ID: candidate(), Strategy: strategy, Lease: s.lease, Lead: w.lead, HandOver: math.MaxInt64, Logger: logging.Slog(log)})
	if err != nil {
		return usageError{err}
	}
	err = a.awaitDatabase(ctx, db, s.dbWait, func(ctx context.Context, waiting waitingFunc) error {
		return db.MigrateWithin(ctx, s.lock, s.dbWait, waiting)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return w.stopped()
	case err != nil:
		return err
	}
	for _, advice := range db.Advice() {
		log.Warn("a setting of the replicated database should be changed", "advice", advice)
	}

	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.elector.Run(run) }() // joined below
	select {
	case <-ctx.Done():
		log.Info("handing over; waiting for the command to end")
	case first := <-w.finished:
		w.finished <- first // for stopped
	}
	stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	select {
	case err = <-ended:
	case <-again:
		close(w.hurry)
		err = <-ended
	}
	if err != nil {
		log.Warn("could not hand over; other nodes wait for the lease", "error", err)
	}
	return w.stopped()
}

// invalidInName matches characters that are not allowed in a node's name.
var invalidInName = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// candidate returns the id of this process in the election: the host's name and
// the pid. The elector draws its incarnation.
func candidate() conclave.NodeID {
	host, err := os.Hostname()
	if host = strings.Trim(invalidInName.ReplaceAllString(host, "-"), "-"); err != nil || host == "" {
		host = "host"
	}
	return conclave.NodeID{Name: fmt.Sprintf("%.40s-%d", host, os.Getpid())}
}

// worker runs the command of `lead`, once for each leadership.
type worker struct {
	leadOptions
	log            hclog.Logger
	stdout, stderr io.Writer
	elector        *elector.Elector

	hurry    chan struct{} // closed by a second signal, to kill the command
	finished chan error    // the result of the first leadership, with --once; cap 1
}

// lead runs one leadership. It returns when the command and its process group
// have ended; then the elector hands over.
func (w *worker) lead(ctx context.Context, term elector.Term) error {
	code, err := w.work(ctx, fence.New(w.lock, term))
	if err != nil {
		w.log.Error("cannot run the command", "term", term.Number, "error", err)
	} else {
		w.log.Info("the command has ended", "term", term.Number, "code", code)
		if code != 0 {
			err = exitError{code}
		}
	}
	if w.once {
		select {
		case w.finished <- err:
		default: // this is not the first leadership
		}
	}
	return nil
}

// stopped returns the error with which the tool ends: with --once the result of
// the first leadership's command.
func (w *worker) stopped() error {
	if !w.once {
		return nil
	}
	select {
	case err := <-w.finished:
		return err
	default:
		return errors.New("stopped before this node led; the command was not run")
	}
}

// work runs the command until it ends or the leadership does. At the end of the
// leadership the command gets SIGTERM, and SIGKILL shortly before the trust in
// the term ends. If the database does not answer, trust ends without a
// notification, so the command also gets SIGTERM when a third of a lease is
// left, after two missing renewals.
func (w *worker) work(ctx context.Context, token fence.Token) (code int, err error) {
	runtime.LockOSThread() // the kernel kills the command when the thread that started it ends
	defer runtime.UnlockOSThread()
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Stdout, cmd.Stderr = w.stdout, w.stderr
	cmd.Env = append(os.Environ(), token.Environ()...)
	cmd.SysProcAttr = leashed()
	cmd.WaitDelay = time.Second // for processes that still hold the pipes
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	signalGroup := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) } // fails only if the group has ended
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // joined on every return
	over, asked := ctx.Done(), false
	slack := w.lease / 20
	for {
		until := w.elector.TrustedUntil()
		next := until.Add(-w.lease / 3)
		if !asked && (ctx.Err() != nil || !time.Now().Before(next)) {
			w.log.Info("stopping the command", "term", token.Term, "why", cmp.Or(context.Cause(ctx), errors.New("the database does not answer")))
			signalGroup(syscall.SIGTERM)
			asked, over = true, nil
		}
		if asked {
			next = until.Add(-slack)
		}
		if asked && !time.Now().Before(next) {
			w.log.Warn("killing the command because trust in the term ends", "term", token.Term)
			signalGroup(syscall.SIGKILL)
			return outcome(cmd, <-exited)
		}
		select {
		case err := <-exited:
			signalGroup(syscall.SIGKILL) // for processes that it has started
			return outcome(cmd, err)
		case <-w.hurry:
			signalGroup(syscall.SIGKILL)
			return outcome(cmd, <-exited)
		case <-over:
		case <-time.After(time.Until(next)):
		}
	}
}

// outcome returns the exit code of a command that has ended, as a shell reports
// it.
func outcome(cmd *exec.Cmd, err error) (int, error) {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case ok && status.Exited():
		return status.ExitStatus(), nil
	}
	return 0, fmt.Errorf("unknown exit status of the command: %w", err)
}
