package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"conclave/internal/sleep"
	"conclave/testbed/local/supervisor"
)

func (a *app) psCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ps", Short: "List the local cluster's processes", Args: want(),
		RunE: a.onLocal(func(ctx context.Context, h *supervisor.Handle, _ []string) error { return a.printProcesses(ctx, h) }),
	}
}

func (a *app) printProcesses(ctx context.Context, h *supervisor.Handle) error {
	ps, err := h.Processes(ctx)
	if err != nil {
		return err
	}
	return a.show(ps, func(w io.Writer) { writeProcesses(w, ps) })
}

func writeProcesses(w io.Writer, ps []supervisor.Process) {
	writeRows(w, ps, "NAME ROLE PID STATE ADDRESS INCARNATION", func(p supervisor.Process) []any {
		state, pid := p.State, ""
		switch {
		case p.State == "exited" && p.Why == "":
			state = fmt.Sprintf("exited (code %d)", p.Code)
		case p.State == "exited", p.State == "starting" && p.Why != "":
			state += ": " + p.Why
		}
		if p.PID > 0 {
			pid = strconv.Itoa(p.PID)
		}
		return []any{p.Name, p.Role, pid, state, p.HTTP + p.SQL, p.Incarnation}
	})
}

// showProcess prints one process as a row of ps.
func (a *app) showProcess(ctx context.Context, h *supervisor.Handle, name string) error {
	p, err := h.Process(ctx, name)
	if err != nil {
		return err
	}
	return a.show(p, func(w io.Writer) { writeProcesses(w, []supervisor.Process{p}) })
}

func (a *app) startCommand() *cobra.Command {
	return &cobra.Command{
		Use: "start NAME", Short: "Start one local process and wait until it is ready", Args: want("NAME"), ValidArgsFunction: a.completeNames(processRoles),
		RunE: a.onLocal(func(ctx context.Context, h *supervisor.Handle, args []string) error {
			if err := h.Start(ctx, args[0]); err != nil {
				return err
			}
			ps, err := h.Processes(ctx)
			if err != nil {
				return err
			}
			if joinsLater(ps, args[0]) {
				line(a.stderr, "%s runs and joins when a meta node does: %s", args[0], a.hint("start meta-1"))
			} else if err := a.awaitReady(ctx, h, args[0]); err != nil {
				return err
			}
			return a.showProcess(ctx, h, args[0])
		}),
	}
}

// joinsLater reports whether a session or data node cannot be ready yet because no meta
// node runs.
func joinsLater(ps []supervisor.Process, name string) bool {
	joins := slices.ContainsFunc(ps, func(p supervisor.Process) bool { return p.Name == name && (p.Role == "session" || p.Role == "data") })
	return joins && !slices.ContainsFunc(ps, func(p supervisor.Process) bool { return p.Role == "meta" && p.State != "killed" && p.State != "exited" })
}

func (a *app) killCommand() *cobra.Command {
	signal := syscall.SIGKILL
	cmd := &cobra.Command{
		Use: "kill NAME|leader [-9|-15|-STOP|-CONT]", Short: "Send a signal (default -9) to one local process",
		Args: want("NAME"), ValidArgsFunction: a.completeNames(processRoles, "leader"),
		RunE: a.onLocal(func(ctx context.Context, h *supervisor.Handle, args []string) error {
			name := args[0]
			if name == "leader" {
				leader, err := a.awaitLeader(ctx, 0, 0)
				if err != nil {
					return err
				}
				name = leader.Leader
			}
			if err := h.Kill(ctx, name, signal); err != nil {
				return err
			}
			return a.showProcess(ctx, h, name)
		}),
	}
	cmd.Flags().Func("signal", "signal by number or name (default 9); -9 and -STOP are short forms", func(s string) error {
		for _, known := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP, syscall.SIGCONT} {
			name := unix.SignalName(known)
			if word := strings.ToUpper(s); word == name || "SIG"+word == name || s == strconv.Itoa(int(known)) {
				signal = known
				return nil
			}
		}
		return errors.New("want -9, -15, -STOP or -CONT")
	})
	return cmd
}

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Print a local process's log", Args: want("NAME"), ValidArgsFunction: a.completeNames(processRoles, "supervisor"),
		RunE: a.onLocal(func(ctx context.Context, h *supervisor.Handle, args []string) error {
			if args[0] != "supervisor" {
				if _, err := h.Process(ctx, args[0]); err != nil {
					return err
				}
			}
			f, err := os.Open(supervisor.LogPath(h.Dir(), args[0]))
			if err != nil {
				return err
			}
			defer f.Close()
			return a.copyLog(ctx, f, follow)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they are written")
	return cmd
}

func (a *app) copyLog(ctx context.Context, f io.Reader, follow bool) error {
	out := bufio.NewWriter(a.stdout)
	for {
		if _, err := io.Copy(out, f); err != nil {
			return err
		}
		if err := out.Flush(); err != nil || !follow || sleep.For(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
