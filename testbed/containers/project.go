package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"conclave/testbed/outside"
)

// ProjectConfig describes a project.
type ProjectConfig struct {
	// Name is the project's name, also in its containers, networks and volumes:
	// lower case letters, digits, - and _.
	Name string
	// Dir is the folder in which compose runs, and reads docker-compose.yml.
	Dir string
	// More are files that compose reads after that one, which may add to it or
	// change it.
	More []string
	// Env is added to the environment of compose, KEY=VALUE each, from which the files
	// take their settings.
	Env []string
	// Services are the services that Up starts, with those that they depend on;
	// all if empty.
	Services []string
	// Out receives the output of compose, if not nil.
	Out io.Writer
}

// Errors that callers can test for with errors.Is.
var (
	// ErrNoDocker: the program docker, its compose plugin or its engine is
	// missing.
	ErrNoDocker = errors.New("docker compose cannot be used here")
	// ErrNoContainer: the project has no container of that service.
	ErrNoContainer = errors.New("no such container")
)

var projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// Project is a cluster in containers. Its methods may be called by several
// goroutines at once.
type Project struct {
	cfg ProjectConfig

	mu     sync.Mutex        // guards the fields below
	ids    map[string]string // by service; a container keeps its id until the next Up
	routes routes
	cuts   map[link]NetworkMember // what was disconnected
}

// link is the connection of a service to a network of the project.
type link struct{ service, network string }

// NewProject checks the configuration; nothing is started.
func NewProject(cfg ProjectConfig) (*Project, error) {
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	if !projectName.MatchString(cfg.Name) {
		return nil, fmt.Errorf("project name %q: want lower case letters, digits, - and _, beginning with a letter or digit", cfg.Name)
	}
	for _, e := range cfg.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return nil, fmt.Errorf("environment %q of project %s: want KEY=VALUE", e, cfg.Name)
		}
	}
	return &Project{cfg: cfg}, nil
}

// Name returns the project's name.
func (p *Project) Name() string { return p.cfg.Name }

// Available returns an error that wraps ErrNoDocker if docker compose or its
// engine is not available.
func Available(ctx context.Context) error {
	for _, needed := range [][]string{
		{"docker has no plugin compose: install it, for example the package docker-compose-plugin", "compose", "version", "--short"},
		{"the engine does not answer", "version", "--format", "{{.Server.Version}}"},
	} {
		_, err := docker(ctx, callLimit, call{args: needed[1:]})
		switch {
		case errors.Is(err, ErrNoDocker): // the program is missing
			return err
		case err != nil:
			return fmt.Errorf("%w: %s (%w)", ErrNoDocker, needed[0], err)
		}
	}
	return nil
}

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
	return out.String(), &commandError{what: "docker " + shorten(c.args), line: outside.LastLine(complaint.String()), cause: err}
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
