package stage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"conclave/internal/stage"
)

func TestRun_ContinuesAfterAFailure(t *testing.T) {
	var done []string
	step := func(name string, err error) stage.Stage {
		return stage.Stage{Name: name, Do: func(context.Context) error { done = append(done, name); return err }}
	}
	full := errors.New("disk full")
	err := stage.Run(t.Context(), hclog.NewNullLogger(), []stage.Stage{step("blacklist", nil), step("drain", full), step("close", nil)})
	assert.Equal(t, []string{"blacklist", "drain", "close"}, done)
	assert.ErrorIs(t, err, full)
	assert.ErrorContains(t, err, "drain: ")
}
