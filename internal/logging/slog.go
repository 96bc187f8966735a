// Package logging passes the log lines of the public packages, which take a
// log/slog Logger, to the hclog Logger of a process.
package logging

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// Slog returns a logger whose lines are written by l, at l's level.
func Slog(l hclog.Logger) *slog.Logger { return slog.New(handler{log: l}) }

// handler is a slog.Handler over an hclog.Logger.
type handler struct {
	log    hclog.Logger
	prefix string // of the keys: the open groups, each with a dot
}

func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	switch levelOf(level) {
	case hclog.Trace:
		return h.log.IsTrace()
	case hclog.Debug:
		return h.log.IsDebug()
	case hclog.Info:
		return h.log.IsInfo()
	case hclog.Warn:
		return h.log.IsWarn()
	}
	return h.log.IsError()
}

func (h handler) Handle(_ context.Context, r slog.Record) error {
	args := make([]any, 0, 2*r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		args = appendAttr(args, h.prefix, a)
		return true
	})
	h.log.Log(levelOf(r.Level), r.Message, args...)
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var args []any
	for _, a := range attrs {
		args = appendAttr(args, h.prefix, a)
	}
	return handler{h.log.With(args...), h.prefix}
}

func (h handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return handler{h.log, h.prefix + name + "."}
}

// appendAttr appends key and value of a, or those of its members if it is a group.
func appendAttr(args []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		if a.Equal(slog.Attr{}) {
			return args
		}
		return append(args, prefix+a.Key, v.Any())
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range v.Group() {
		args = appendAttr(args, prefix, member)
	}
	return args
}

func levelOf(level slog.Level) hclog.Level {
	switch {
	case level < slog.LevelDebug:
		return hclog.Trace
	case level < slog.LevelInfo:
		return hclog.Debug
	case level < slog.LevelWarn:
		return hclog.Info
	case level < slog.LevelError:
		return hclog.Warn
	}
	return hclog.Error
}
