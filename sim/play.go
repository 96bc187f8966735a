package sim

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"conclave/chaos"
)

// Play plays a scenario in a bubble of its own, which ends with it.
func Play(t *testing.T, s chaos.Scenario, o Options) (*chaos.Result, error) {
	var result *chaos.Result
	var err error
	synctest.Test(t, func(*testing.T) {
		result, err = chaos.Play(context.Background(), s, New(o))
	})
	return result, err
}

// Transcript writes what happened, one line for each thing, in order.
func Transcript(w io.Writer, r *chaos.Result) error {
	for _, e := range r.History.Entries {
		if _, err := io.WriteString(w, e.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}
