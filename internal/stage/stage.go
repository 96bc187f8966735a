// Package stage runs the named steps of a graceful stop in order. The order is
// data, as article 002 describes a stop as a list of steps, and the log has the
// duration of every step.
package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Stage is one step.
type Stage struct {
	Name string
	Do   func(context.Context) error
}

// Run runs the steps in order. If a step fails, Run logs the error and
// continues with the next step, so that a stop that has begun is finished. All
// steps share ctx. Run returns the joined errors.
func Run(ctx context.Context, log hclog.Logger, stages []Stage) error {
	var errs []error
	for i, s := range stages {
		start := time.Now()
		if err := s.Do(ctx); err != nil {
			log.Warn("stop step failed", "step", i+1, "name", s.Name, "took", time.Since(start), "error", err)
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			continue
		}
		log.Debug("stop step done", "step", i+1, "name", s.Name, "took", time.Since(start))
	}
	return errors.Join(errs...)
}
