package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Config names a project and says how it is made.
type Config struct {
	// Name is the project: its containers, networks and volumes carry it. Lower case
	// letters, digits, - and _.
	Name string
	// Dir is the folder in which compose runs, and File the file it reads there.
	// Default docker-compose.yml.
	Dir, File string
	// More are files that compose reads after it: what they add or change.
	More []string
	// Env is added to the environment of compose, KEY=VALUE each: the settings of
	// the file.
	Env []string
	// Services are what Up starts, with what they depend on; none: all.
	Services []string
	// Out is told what compose says while it works; nil drops it.
	Out io.Writer
}

// Errors that callers meet.
var (
	// ErrNoDocker: the program docker, its compose plugin or its engine is not there.
	ErrNoDocker = errors.New("docker compose cannot be used here")
	// ErrNoContainer: the project has no container of that service.
	ErrNoContainer = errors.New("no such container")
)

var projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// Project is a cluster in containers. Its methods may be called from any
// goroutine.
type Project struct {
	cfg Config

	mu  sync.Mutex        // guards the rest
	ids map[string]string // by service: a container keeps its id until the next Up
	way ways              // how this machine reaches what containers advertise
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Project, error) {
	if cfg.File == "" {
		cfg.File = "docker-compose.yml"
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	if !projectName.MatchString(cfg.Name) {
		return nil, fmt.Errorf("project name %q: want lower case letters, digits, - and _, beginning with one of the first two", cfg.Name)
	}
	for _, e := range cfg.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return nil, fmt.Errorf("environment %q of project %s: want KEY=VALUE", e, cfg.Name)
		}
	}
	return &Project{cfg: cfg}, nil
}

// Name is the project's.
func (p *Project) Name() string { return p.cfg.Name }

// Available says whether docker compose and an engine are there; the error wraps
// ErrNoDocker.
func Available(ctx context.Context) error {
	for _, args := range [][]string{{"compose", "version", "--short"}, {"version", "--format", "{{.Server.Version}}"}} {
		if _, err := docker(ctx, callLimit, call{args: args}); err != nil {
			return fmt.Errorf("%w: %w", ErrNoDocker, err)
		}
	}
	return nil
}

// Up makes the project anew and returns when all containers run and those with a
// health check that others depend on are healthy. What is left of an earlier run is
// taken down first. Images are not built here: they must exist.
func (p *Project) Up(ctx context.Context) error {
	if err := p.Down(ctx); err != nil {
		return fmt.Errorf("take down what is left of project %s: %w", p.cfg.Name, err)
	}
	args := append([]string{"up", "--detach", "--no-build", "--remove-orphans"}, p.cfg.Services...)
	if err := p.compose(ctx, upLimit, args...); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// Down removes every container, network and volume of the project, running, frozen
// or half made. Nothing to remove is no error.
func (p *Project) Down(ctx context.Context) error {
	p.mu.Lock()
	p.ids, p.way = nil, nil
	p.mu.Unlock()
	for try := 0; ; try++ {
		left, err := p.leftovers(ctx)
		if err != nil || left.none() {
			return err
		}
		if err := p.remove(ctx, left); err != nil && try == downTries {
			return err
		}
		if try == downTries {
			return fmt.Errorf("project %s is not gone: %v", p.cfg.Name, left)
		}
		if try > 0 { // the engine may still be busy with a call that was cut off
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

const downTries = 10

// leftovers are the ids of all that carries the project's label.
type leftovers struct{ paused, containers, networks, volumes []string }

func (l leftovers) none() bool { return len(l.containers)+len(l.networks)+len(l.volumes) == 0 }

func (p *Project) leftovers(ctx context.Context) (leftovers, error) {
	var l leftovers
	label := "label=" + labelProject + "=" + p.cfg.Name
	for _, q := range []struct {
		into *[]string
		args []string
	}{
		{&l.paused, []string{"ps", "--quiet", "--no-trunc", "--filter", label, "--filter", "status=paused"}},
		{&l.containers, []string{"ps", "--all", "--quiet", "--no-trunc", "--filter", label}},
		{&l.networks, []string{"network", "ls", "--quiet", "--filter", label}},
		{&l.volumes, []string{"volume", "ls", "--quiet", "--filter", label}},
	} {
		out, err := docker(ctx, callLimit, call{args: q.args})
		if err != nil {
			return l, err
		}
		*q.into = strings.Fields(out)
	}
	return l, nil
}

// remove goes on after an error: what can go, goes.
func (p *Project) remove(ctx context.Context, l leftovers) error {
	var errs []error
	for _, step := range []struct {
		args, ids []string
	}{
		{[]string{"unpause"}, l.paused}, // a frozen process dies when it thaws, not before, on some kernels
		{[]string{"rm", "--force", "--volumes"}, l.containers},
		{[]string{"network", "rm"}, l.networks},
		{[]string{"volume", "rm"}, l.volumes},
	} {
		if len(step.ids) > 0 {
			_, err := docker(ctx, downLimit, call{args: append(step.args, step.ids...)})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
