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
	leadOptions
	leads          conclavesql.Lock
	log            hclog.Logger
	stdout, stderr io.Writer
	elector        *elector.Elector

	hurry    chan struct{} // closed by a second signal, to kill the command
	finished chan error    // the result of the first leadership, with --once; cap 1
}

// lead runs one leadership. It returns when the command and its process group
// have ended; then the elector hands over.
func (w *worker) lead(ctx context.Context, term elector.Term) error {
	code, err := w.work(ctx, fence.New(w.leads, term))
	switch {
	case err != nil:
		w.log.Error("cannot run the command", "term", term.Number, "error", err)
	default:
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
			w.log.Info("stopping the command", "term", token.Term, "why", reason(ctx))
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
		timer := time.NewTimer(time.Until(next))
		select {
		case err := <-exited:
			timer.Stop()
			signalGroup(syscall.SIGKILL) // for processes that it has started
			return outcome(cmd, err)
		case <-w.hurry:
			timer.Stop()
			signalGroup(syscall.SIGKILL)
			return outcome(cmd, <-exited)
		case <-over:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// reason returns why the command has to stop.
func reason(ctx context.Context) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return errors.New("the database does not answer")
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
