package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/testbed/outside"
)

// Config describes a project.
type Config struct {
	// Name is the project's name, also in its containers, networks and volumes:
	// lower case letters, digits, - and _.
	Name string
	// Dir is the folder in which compose runs, and File the file that it reads
	// there. Default docker-compose.yml.
	Dir, File string
	// More are files that compose reads after File, which may add to it or
	// change it.
	More []string
	// Env is added to the environment of compose, KEY=VALUE each. File takes
	// its settings from there.
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
	cfg Config

	mu     sync.Mutex        // guards the fields below
	ids    map[string]string // by service; a container keeps its id until the next Up
	routes routes
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

// Up creates the project and returns when all containers are running and those
// with a health check that others depend on are healthy. It first removes what
// an earlier run has left. It does not build images; they must exist.
func (p *Project) Up(ctx context.Context) error {
	if err := p.Down(ctx); err != nil {
		return fmt.Errorf("remove what is left of project %s: %w", p.cfg.Name, err)
	}
	args := append([]string{"up", "--detach", "--no-build", "--remove-orphans"}, p.cfg.Services...)
	if err := p.compose(ctx, upLimit, args...); err != nil {
		return err
	}
	return p.refresh(ctx)
}

// Down removes every container, network and volume of the project in any state.
// If there is nothing to remove, that is no error.
func (p *Project) Down(ctx context.Context) error {
	p.mu.Lock()
	p.ids, p.routes = nil, nil
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
			return fmt.Errorf("project %s could not be removed: %v is left", p.cfg.Name, left)
		}
		if try > 0 { // the engine may still execute a call that was interrupted
			if err := sleep.For(ctx, 300*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

const downTries = 10

// leftovers are the ids of everything with the project's label.
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

// remove continues after an error, so that it removes as much as it can.
func (p *Project) remove(ctx context.Context, l leftovers) error {
	var errs []error
	for _, step := range []struct {
		args, ids []string
	}{
		{[]string{"unpause"}, l.paused}, // on some kernels a suspended process cannot be killed
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

const probeLimit = time.Second

// AwaitReady waits until the nodes of these services are all ready at the same
// time; via is as in outside.Probe. If a container has ended, it returns an error
// with the last line of its log; if ctx ends, an error that names the services that
// were not ready.
func (p *Project) AwaitReady(ctx context.Context, via *http.Client, services ...string) error {
	looks := 0
	waiting, err := outside.AwaitReady(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, []string, error) {
		waiting := p.notReady(ctx, via, services)
		if looks++; len(waiting) > 0 && looks%20 == 0 { // more expensive than a probe
			return false, waiting, p.ended(ctx, services)
		}
		return len(waiting) == 0, waiting, nil
	})
	if len(waiting) > 0 {
		return fmt.Errorf("%w: not ready: %s", err, strings.Join(waiting, ", "))
	}
	return err
}

// notReady returns the services that are not ready, with reasons.
func (p *Project) notReady(ctx context.Context, via *http.Client, services []string) []string {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	why := make([]string, len(services))
	var asking sync.WaitGroup
	for i, s := range services {
		published := p.Published(s)
		if len(published) == 0 {
			why[i] = s + " (no port)"
			continue
		}
		asking.Go(func() {
			switch c, err := outside.Probe(ctx, via, published[0]); {
			case err != nil:
				why[i] = s + " (does not answer)"
			case c.Name != s:
				why[i] = fmt.Sprintf("%s (%s answers at %s)", s, c.Name, published[0])
			case !c.Ready:
				why[i] = s + " (" + c.Why + ")"
			}
		})
	}
	asking.Wait()
	var out []string
	for _, w := range why {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

// ended returns an error if one of the containers is not running.
func (p *Project) ended(ctx context.Context, services []string) error {
	all, err := p.Containers(ctx)
	if err != nil {
		return err
	}
	for _, s := range services {
		for _, c := range all {
			if c.Service != s || c.State == "running" || c.State == "restarting" || c.State == "created" {
				continue
			}
			if c.State == "paused" {
				return fmt.Errorf("%s is paused", s)
			}
			log, err := p.Logs(ctx, s, c.Started)
			if err != nil {
				log = err.Error()
			}
			return fmt.Errorf("%s has ended with code %d: %s", s, c.ExitCode, lastLine(log))
		}
	}
	return p.refresh(ctx) // for a port that was not known when the container started
}
