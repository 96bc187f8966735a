package containers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"conclave/internal/join"
	"conclave/internal/sleep"
	"conclave/testbed/outside"
)

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
	_, err := p.Containers(ctx)
	return err
}

// Down removes every container, network and volume of the project in any state.
// If there is nothing to remove, that is no error.
func (p *Project) Down(ctx context.Context) error {
	p.mu.Lock()
	p.ids, p.routes, p.cuts = nil, nil, nil
	p.mu.Unlock()
	for try := 0; ; try++ {
		left, err := p.sweep(ctx)
		switch {
		case len(left) == 0, err != nil && try == downTries:
			return err
		case try == downTries:
			return fmt.Errorf("project %s could not be removed: %v is left", p.cfg.Name, left)
		case try > 0: // the engine may still execute a call that was interrupted
			if err := sleep.For(ctx, 300*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

const downTries = 10

// sweep removes everything with the project's label, and returns the ids of what it has
// found. It continues after an error, so that it removes as much as it can.
func (p *Project) sweep(ctx context.Context) (found []string, err error) {
	for _, kind := range []struct{ list, remove string }{
		{"ps --quiet --no-trunc --filter status=paused", "unpause"}, // on some kernels a suspended process cannot be killed
		{"ps --all --quiet --no-trunc", "rm --force --volumes"},
		{"network ls --quiet", "network rm"},
		{"volume ls --quiet", "volume rm"},
	} {
		out, lerr := docker(ctx, callLimit, call{args: append(strings.Fields(kind.list), "--filter", "label="+labelProject+"="+p.cfg.Name)})
		if lerr != nil {
			return nil, lerr
		}
		if ids := strings.Fields(out); len(ids) > 0 {
			found = append(found, ids...)
			_, rerr := docker(ctx, downLimit, call{args: append(strings.Fields(kind.remove), ids...)})
			err = errors.Join(err, rerr)
		}
	}
	return found, err
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
	return slices.DeleteFunc(join.Map(services, func(s string) string {
		published := p.Published(s)
		if len(published) == 0 {
			return s + " (no port)"
		}
		switch c, err := outside.Probe(ctx, via, published[0]); {
		case err != nil:
			return s + " (does not answer)"
		case c.Name != s:
			return fmt.Sprintf("%s (%s answers at %s)", s, c.Name, published[0])
		case !c.Ready:
			return s + " (" + c.Why + ")"
		}
		return ""
	}), func(why string) bool { return why == "" })
}

// ended returns an error if one of the containers is not running. It learns the ports
// that were not known when they started.
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
			return fmt.Errorf("%s has ended with code %d: %s", s, c.ExitCode, outside.LastLine(log))
		}
	}
	return nil
}
