// Package contain keeps a panic from ending the process where that is safe: in the
// handlers of requests, and in the goroutines that they start. The panic is logged
// with its stack and counted, and the stream that it happened on ends.
//
// Nothing else is contained (docs/adr/0091). A panic in the election, in a loop that
// owns state of the node (the leader's arranger, the slots of a data node, the writers
// and readers of a session), or at start ends the process: it is unknown what such a loop
// would do next, and the cluster is made for processes that end.
package contain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
)

// count is how many panics this process has contained.
var count atomic.Uint64

// Count returns how many panics this process has contained.
func Count() uint64 { return count.Load() }

// Run calls f. If f panics, Run logs that and calls end with an error, which must make
// what f was doing for a client or a peer end.
func Run(log hclog.Logger, end func(error), f func()) {
	defer func() {
		if v := recover(); v != nil {
			report(log, v)
			end(Error(v))
		}
	}()
	f()
}

// Error returns the error that a peer is sent of a panic.
func Error(v any) error { return fmt.Errorf("a handler panicked: %v", v) }

// report logs and counts a panic. It is called while the stack is that of the panic.
func report(log hclog.Logger, v any) {
	count.Add(1)
	if log != nil {
		log.Error("panic, contained", "panic", v, "stack", string(debug.Stack()))
	}
}

// logKey is the context key of the logger that Handler was given.
type logKey struct{}

// Handler returns next, whose panics are logged. They end the request, as without
// it: net/http discards the log of those.
func Handler(log hclog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, _ := v.(error); !errors.Is(err, http.ErrAbortHandler) {
				report(log, v)
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), logKey{}, log)))
	})
}

// Reported logs a panic that another library has recovered from, in a request of a
// Handler, and returns its error.
func Reported(ctx context.Context, v any) error {
	log, _ := ctx.Value(logKey{}).(hclog.Logger)
	report(log, v)
	return Error(v)
}
