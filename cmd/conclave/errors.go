package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
	"conclave/wire"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoLeader = 3
	exitTimedOut = 4
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the tool with the exit code of another program.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// errTimedOut reports that a time limit given by the user has passed.
var errTimedOut = errors.New("timed out")

// report writes the error of cmd as one line and turns it into an exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	var exit exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	}
	code, advice := classify(cmd, err)
	line := strings.Join(strings.Fields(err.Error()), " ")
	fmt.Fprintf(a.stderr, "conclave: %s%s\n", line, advice)
	return code
}

// classify returns the exit code of err, and advice for the user unless the
// message has it.
func classify(cmd *cobra.Command, err error) (int, string) {
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, supervisor.ErrConfig):
		return exitUsage, fmt.Sprintf(" (see `conclave help%s`)", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
	case errors.Is(err, errTimedOut), errors.Is(err, context.DeadlineExceeded):
		return exitTimedOut, ""
	}
	switch wire.CodeOf(err) {
	case wire.CodeNoLeader:
		return exitNoLeader, "; wait for a leader with `conclave leader --wait 10s`"
	case wire.CodeNoSuccessor, wire.CodeUnsafe:
		return exitFailed, "; show the effect with --dry-run, or do it with --force"
	case wire.CodeBadRequest:
		return exitUsage, ""
	case wire.CodeUnauthorized:
		return exitFailed, "; use --token or --token-file"
	case wire.CodeUnavailable:
		return exitFailed, "; check that the cluster is running (`conclave ps`, `conclave up`, or --meta ADDR,...)"
	}
	return exitFailed, ""
}
