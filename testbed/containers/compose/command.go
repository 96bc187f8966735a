package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a program may run, unless the caller's context ends before.
const (
	callLimit = 30 * time.Second
	downLimit = time.Minute
	upLimit   = 3 * time.Minute
)

// call is one run of the program docker.
type call struct {
	args []string
	dir  string
	env  []string  // added to this process's environment
	out  io.Writer // receives all its output, if not nil
}

// docker runs the program and returns its standard output. An error has the
// command and the last line of its standard error.
func docker(ctx context.Context, limit time.Duration, c call) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("still running after %s", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", c.args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if c.out != nil {
		both := &shared{to: c.out}
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, both), io.MultiWriter(&complaint, both)
	}
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	// In its own process group, so that a Ctrl-C does not interrupt it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: %w", ErrNoDocker, err)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return out.String(), &commandError{what: "docker " + shorten(c.args), line: lastLine(complaint.String()), cause: err}
}

// shared is the target of a program's two output streams; it serialises the
// writes.
type shared struct {
	mu sync.Mutex // held while writing; only the other stream waits for it
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// compose runs docker compose for the project.
func (p *Project) compose(ctx context.Context, limit time.Duration, args ...string) error {
	all := []string{"compose", "--project-name", p.cfg.Name, "--file", "docker-compose.yml"}
	for _, file := range p.cfg.More {
		all = append(all, "--file", file)
	}
	all = append(all, "--progress", "plain")
	_, err := docker(ctx, limit, call{args: append(all, args...), dir: p.cfg.Dir, env: p.cfg.Env, out: p.cfg.Out})
	return err
}

// commandError is the failure of a program.
type commandError struct {
	what, line string
	cause      error
}

func (e *commandError) Error() string {
	if e.line == "" {
		return fmt.Sprintf("%s: %v", e.what, e.cause)
	}
	return fmt.Sprintf("%s: %v: %s", e.what, e.cause, e.line)
}

func (e *commandError) Unwrap() error { return e.cause }

// shorten returns a command as an error shows it, with ids of 64 digits cut.
func shorten(args []string) string {
	short := make([]string, len(args))
	for i, a := range args {
		if short[i] = a; len(a) == 64 && strings.Trim(a, "0123456789abcdef") == "" {
			short[i] = a[:12]
		}
	}
	return strings.Join(short, " ")
}

// lastLine returns the last line that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
