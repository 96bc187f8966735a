// Package stage runs the ordered, named steps of a graceful stop (article 002
// describes a stop as just such a list), so that the order is data, read at a
// glance, and every step says in the log that it was taken and how long it took.
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

// Run takes the steps in their order. A step that fails is noted and the rest
// still run, each with what is left of ctx: a stop that has begun is finished,
// and the joined errors tell what was not done.
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
