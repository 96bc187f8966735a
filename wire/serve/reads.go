package serve

import (
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"conclave/wire"
	"conclave/wire/admit"
)

// Limits of the requests that list something: what is answered at a time, and how
// long one answer may take to be written. A node that has leases to keep spends no
// more on readers, however many they are and however slowly they read.
const (
	readsAtOnce = 64
	readLimit   = 10 * time.Second
)

// limitReads refuses what exceeds readsAtOnce, with Retry-After, and breaks off what
// exceeds readLimit. Requests that last, probes and acts are not limited.
func limitReads() mux.MiddlewareFunc {
	places := admit.New(readsAtOnce, 0)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/v1/") || routeOf(r).lasts {
				next.ServeHTTP(w, r)
				return
			}
			if !places.Try("", 1) {
				w.Header().Set("Retry-After", "1")
				WriteError(w, wire.Errorf(wire.CodeUnavailable, "%d requests are being answered, which is the limit", readsAtOnce))
				return
			}
			defer places.Release("", 1)
			response := http.NewResponseController(w)
			_ = response.SetWriteDeadline(time.Now().Add(readLimit)) // of this answer only, and of its last byte
			next.ServeHTTP(w, r)
		})
	}
}
