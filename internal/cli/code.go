package cli

import "errors"

// The exit codes; see the package comment.
const (
	CodeDone     = 0
	CodeFailed   = 1
	CodeUsage    = 2
	CodeTimedOut = 4
)

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// coded gives err a code, unless it has one already.
func coded(code int, err error) error {
	var has *exitError
	if err == nil || errors.As(err, &has) {
		return err
	}
	return &exitError{code, err}
}

// Failed marks an error of Process.New as a failure, not as wrong usage.
func Failed(err error) error { return coded(CodeFailed, err) }

// TimedOut marks an error of Process.New as a timeout.
func TimedOut(err error) error { return coded(CodeTimedOut, err) }

// Code returns the exit code for the error that Execute returned.
func Code(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return CodeDone
	case errors.As(err, &e):
		return e.code
	}
	return CodeFailed
}
