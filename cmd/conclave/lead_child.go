package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/elector"
	"conclave/elector/fence"
	conclavesql "conclave/sql"
)

// worker runs the command of `lead`, once for each leadership.
type worker struct {
	standing
	leads          conclavesql.Lock
	log            hclog.Logger
	stdout, stderr io.Writer
	elector        *elector.Elector

	hurry    chan struct{} // closed by a second signal: kill the command now
	finished chan error    // how the first leadership ended; cap 1. Nobody reads it but --once
}

// lead is one leadership: it returns when the command has ended, and everything that
// it started. Then the elector hands over.
func (w *worker) lead(ctx context.Context, term elector.Term) error {
	code, err := w.work(ctx, fence.New(w.leads, term))
	switch {
	case err != nil:
		w.log.Error("the command cannot be run", "term", term.Number, "error", err)
	default:
		w.log.Info("the command has ended", "term", term.Number, "code", code)
		if code != 0 {
			err = exitError{code}
		}
	}
	if w.once {
		select {
		case w.finished <- err:
		default: // the first leadership has told already
		}
	}
	return nil
}

// stopped is how the tool ends: with --once as the first leadership's command did.
func (w *worker) stopped() error {
	if !w.once {
		return nil
	}
	select {
	case err := <-w.finished:
		return err
	default:
		return errors.New("stopped before this node led: the command was not run")
	}
}

// work runs the command until it ends by itself, or the leadership does: then SIGTERM,
// and SIGKILL when the trust in the term is nearly over. The trust can run out without
// a word, when the database does not answer; so the command is asked to stop when a
// third of a lease is left, which is when two renewals are missing.
func (w *worker) work(ctx context.Context, token fence.Token) (code int, err error) {
	runtime.LockOSThread() // the kernel kills the command with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Stdout, cmd.Stderr = w.stdout, w.stderr
	cmd.Env = append(os.Environ(), token.Environ()...)
	cmd.SysProcAttr = leashed()
	cmd.WaitDelay = time.Second // for who holds our pipes although he was killed
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	tell := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) } // the whole group; none left is fine
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // joined below, on every way out
	over, asked := ctx.Done(), false
	slack := w.lease / 20
	for {
		until := w.elector.TrustedUntil()
		next := until.Add(-w.lease / 3)
		if !asked && (ctx.Err() != nil || !time.Now().Before(next)) {
			w.log.Info("asking the command to stop", "term", token.Term, "why", reason(ctx))
			tell(syscall.SIGTERM)
			asked, over = true, nil
		}
		if asked {
			next = until.Add(-slack)
		}
		if asked && !time.Now().Before(next) {
			w.log.Warn("killing the command: the trust in the term ends", "term", token.Term)
			tell(syscall.SIGKILL)
			return outcome(cmd, <-exited)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case err := <-exited:
			timer.Stop()
			tell(syscall.SIGKILL) // whatever it has left behind
			return outcome(cmd, err)
		case <-w.hurry:
			timer.Stop()
			tell(syscall.SIGKILL)
			return outcome(cmd, <-exited)
		case <-over:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// reason is why the command has to stop.
func reason(ctx context.Context) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return errors.New("the database does not answer")
}

// outcome is the exit code of a command that has ended, as a shell would say it.
func outcome(cmd *exec.Cmd, err error) (int, error) {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case ok && status.Exited():
		return status.ExitStatus(), nil
	}
	return 0, fmt.Errorf("the command's end is not known: %w", err)
}
