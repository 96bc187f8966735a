package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"conclave/testbed/local/supervisor"
	"conclave/wire"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoLeader = 3
	exitTimedOut = 4
	exitPipe     = 128 + int(syscall.SIGPIPE) // the reader of the output has ended: as of a program that the signal ends
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the tool with the exit code of another program.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// errTimedOut reports that a time limit given by the user has passed.
var errTimedOut = errors.New("timed out")

// failure is the document that --json prints on standard error, as error or
// warning.
type failure struct {
	Code    string `json:"code"` // a node's code, or usage, timed_out, failed
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	Exit    int    `json:"exit,omitempty"`
}

// report writes the error of cmd, as one line or as a document, and turns it
// into an exit code. If the reader of the output has ended, the code is exitPipe,
// and an error that says no more than that is not written.
func (a *app) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	code, exit := exitPipe, exitError{}
	ended := errors.Is(context.Cause(cmd.Context()), errReaderEnded)
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case ended && (errors.Is(err, context.Canceled) || errors.Is(err, syscall.EPIPE)):
	default:
		f := a.classify(cmd, err)
		f.Message = strings.Join(strings.Fields(joined.ReplaceAllString(message(err), "$1; $2")), " ")
		a.explain("error", f)
		code = f.Exit
	}
	if ended && code != exitDone {
		return exitPipe
	}
	return code
}

// joined finds the line break between two errors of errors.Join.
var joined = regexp.MustCompile(`([^\s:])\n(\S)`)

// warn writes what is wrong with a result that is printed all the same.
func (a *app) warn(f failure) { a.explain("warning", f) }

// explain writes a failure to standard error: a line, or with --json a document
// under the name what.
func (a *app) explain(what string, f failure) {
	if a.asJSON {
		enc := json.NewEncoder(a.stderr)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(map[string]failure{what: f}) // the exit code still has the result
		return
	}
	advice := ""
	switch {
	case f.Code == "usage" && f.Advice != "":
		advice = " (" + f.Advice + ")"
	case f.Advice != "":
		advice = "; " + f.Advice
	}
	line(a.stderr, "conclave: %s%s", f.Message, advice)
}

// message returns the text of err for people: without a node's code, and
// without its hint at the HTTP parameter that forces an action.
func message(err error) string {
	text := err.Error()
	var e *wire.Error
	if errors.As(err, &e) {
		text = strings.ReplaceAll(text, e.Error(), e.Message)
		text = strings.ReplaceAll(text, wire.UnlessForced, "")
	}
	return text
}

// classify returns the code of err, the exit code, and advice for the user
// unless the message has it.
func (a *app) classify(cmd *cobra.Command, err error) failure {
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, supervisor.ErrConfig):
		return failure{Code: "usage", Exit: exitUsage, Advice: fmt.Sprintf("see `%s`", strings.TrimSpace("conclave help "+commandName(cmd)))}
	case errors.Is(err, errTimedOut), errors.Is(err, context.DeadlineExceeded):
		return failure{Code: "timed_out", Exit: exitTimedOut}
	}
	f := failure{Code: string(wire.CodeOf(err)), Exit: exitFailed}
	switch wire.Code(f.Code) {
	case "":
		f.Code = "failed"
	case wire.CodeNoLeader:
		f.Exit, f.Advice = exitNoLeader, "wait for a leader with "+a.hint("leader --wait 10s")
	case wire.CodeNoSuccessor, wire.CodeUnsafe:
		f.Advice = "show the effect with --dry-run, or do it with --force"
	case wire.CodeBadRequest:
		f.Exit = exitUsage
	case wire.CodeNotFound:
		list := "nodes"
		if top := topCommand(cmd).Name(); slices.Contains([]string{"switch", "blacklist", "config"}, top) {
			list = top + " list"
		}
		f.Advice = "list what there is with " + a.hint(list)
	case wire.CodeUnauthorized:
		f.Advice = "use --token or --token-file"
	case wire.CodeForbidden:
		f.Advice = "address the node by its IP address or name, or configure the name with --host"
	case wire.CodeUnavailable:
		f.Advice = "check that the cluster is running: " + a.hint("nodes")
		if len(a.metas) == 0 {
			f.Advice = "see what runs with " + a.hint("ps") + ", start a node that is down with " + a.hint("start NAME") + ", or name the metas of another cluster with --meta"
		}
	}
	return f
}
