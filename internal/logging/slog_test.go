package logging_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"conclave/internal/logging"
)

func TestSlog_WritesWhatHclogWouldWrite(t *testing.T) {
	var direct, passed bytes.Buffer
	options := func(out *bytes.Buffer) *hclog.LoggerOptions {
		return &hclog.LoggerOptions{Name: "meta", Level: hclog.Info, Output: out, DisableTime: true}
	}
	args := []any{"term", uint64(7), "leader", "meta-1@1f", "error", errors.New("lost it"), "pause", 20 * time.Millisecond, "alive", true, "count", 3}
	h := hclog.New(options(&direct)).Named("elector")
	h.Debug("not shown", args...)
	h.Info("leading", args...)
	h.With("lock", "a/b").Warn("failed", args...)
	s := logging.Slog(hclog.New(options(&passed)).Named("elector"))
	s.Debug("not shown", args...)
	s.Info("leading", args...)
	s.With("lock", "a/b").Warn("failed", args...)
	assert.Equal(t, direct.String(), passed.String())
	assert.Equal(t, 2, strings.Count(passed.String(), "\n"))

	passed.Reset()
	s.WithGroup("row").Info("read", "beat", 1, slog.Group("owner", "name", "meta-1"))
	assert.Contains(t, passed.String(), "row.beat=1 row.owner.name=meta-1")
}

func TestSlog_DiscardsWithANullLogger(t *testing.T) {
	assert.False(t, logging.Slog(hclog.NewNullLogger()).Enabled(t.Context(), slog.LevelError))
}
