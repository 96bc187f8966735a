package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Condition is what a node reports about itself.
type Condition struct {
	Ready       bool
	Why         string // why it is not ready, or what is wrong although it is
	Name        string
	Incarnation string
}

const probeLimit = time.Second

// Probe requests /healthz and /readyz from the node at a published address. It
// returns an error if the node does not answer. via must use a new connection for
// each request: on an old one the answer could come from a node that was suspended
// or replaced.
func Probe(ctx context.Context, via *http.Client, address string) (Condition, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var c Condition
	var health struct{ Name, Incarnation string }
	if _, err := get(ctx, via, "http://"+address+"/healthz", &health); err != nil {
		return c, err
	}
	c.Name, c.Incarnation = health.Name, health.Incarnation
	var readiness struct{ Reasons []string }
	status, err := get(ctx, via, "http://"+address+"/readyz", &readiness)
	c.Ready, c.Why = status == http.StatusOK, strings.Join(readiness.Reasons, "; ")
	return c, err
}

func get(ctx context.Context, via *http.Client, url string, into any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := via.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(into)
}

// AwaitReady waits until the nodes of these services are all ready at the same
// time; via is as in Probe. If a container has ended, it returns an error with the
// last line of its log; if ctx ends, an error that names the services that were not
// ready.
func (p *Project) AwaitReady(ctx context.Context, via *http.Client, services ...string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for look := 0; ; look++ {
		waiting := p.notReady(ctx, via, services)
		if len(waiting) == 0 {
			return nil
		}
		if look%20 == 19 { // more expensive than a probe
			if err := p.ended(ctx, services); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: not ready: %s", ctx.Err(), strings.Join(waiting, ", "))
		}
	}
}

// notReady returns the services that are not ready, with reasons.
func (p *Project) notReady(ctx context.Context, via *http.Client, services []string) []string {
	why := make([]string, len(services))
	var asking sync.WaitGroup
	for i, s := range services {
		published := p.Published(s)
		if len(published) == 0 {
			why[i] = s + " (no port)"
			continue
		}
		asking.Go(func() {
			switch c, err := Probe(ctx, via, published[0]); {
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
