package supervisor

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The look during which the time ends is believed in what it can know: who has ended, and
// that all are ready. Of everybody else it only knows that there was no time to ask.
func TestALookThatIsCutShortIsBelievedInWhatItCanKnow(t *testing.T) {
	looks := func(last ...Process) [][]Process {
		return [][]Process{{{Name: "data-1", State: "suspended"}, {Name: "db", State: "ready"}}, last}
	}
	for name, c := range map[string]struct {
		looks [][]Process // the time ends in the last
		says  string      // "": no error
		late  bool
	}{
		"nobody could be asked": {
			looks(Process{Name: "data-1", State: "starting"}, Process{Name: "db", State: "starting"}),
			"not ready: data-1 (suspended); their logs are in DIR/logs", true,
		},
		"one has ended": {
			looks(Process{Name: "data-1", State: stateExited}, Process{Name: "db", State: "starting"}),
			"data-1 ended while the cluster was starting (exited): it wrote no log", false,
		},
		"all are ready": {
			looks(Process{Name: "data-1", State: "ready"}, Process{Name: "db", State: "ready"}),
			"", false,
		},
		"it was the first": {
			[][]Process{{{Name: "data-1", State: "starting", Why: "no table"}, {Name: "db", State: "starting"}}},
			"not ready: data-1 (no table), db (starting); their logs are in DIR/logs", true,
		},
		"there was nothing to look at before": {
			[][]Process{nil, {{Name: "db", State: "starting"}}},
			"not ready: db (starting); their logs are in DIR/logs", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			h, n := &Handle{dir: "DIR"}, 0
			err := h.awaitReady(ctx, func(context.Context) ([]Process, error) {
				if n++; n < len(c.looks) {
					return c.looks[n-1], nil
				}
				end()
				return c.looks[len(c.looks)-1], nil
			})
			if c.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.says)
			assert.Equal(t, c.late, errors.Is(err, context.Canceled))
		})
	}
}
