package compose

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"conclave/testbed/outside"
)

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
