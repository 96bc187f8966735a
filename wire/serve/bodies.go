package serve

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/rights"
)

// Limits of the body of a request, which is in memory before it is answered: of
// one that needs no right, or carries two numbers; of any other one that does not
// last; and of the time in which it must arrive.
const (
	smallBody = 64 << 10
	largeBody = 4 * conclave.MaxRequest
	bodyLimit = 10 * time.Second
)

// limitBody bounds the bodies of requests that do not last, in bytes and in time.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := routeOf(r)
		if need.lasts || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		most := largeBody
		switch {
		case need.small, need.right == rights.Open:
			most = smallBody
		case r.ProtoMajor == 1, !strings.HasPrefix(keyOf(r), "/"): // not between nodes
			most = conclave.MaxRequest
		}
		if r.ContentLength > int64(most) {
			WriteError(w, wire.Errorf(wire.CodeTooLarge, "the body has %d bytes, the limit is %d", r.ContentLength, most))
			return
		}
		response := http.NewResponseController(w)
		_ = response.SetReadDeadline(time.Now().Add(bodyLimit))
		r.Body = &limitedBody{
			ReadCloser: http.MaxBytesReader(w, r.Body, int64(most)),
			arrived:    sync.OnceFunc(func() { _ = response.SetReadDeadline(time.Time{}) }),
		}
		next.ServeHTTP(w, r)
	})
}

// limitedBody is a body that must arrive in time. What is done after that may take
// longer.
type limitedBody struct {
	io.ReadCloser
	arrived func() // ends the limit
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.arrived()
	}
	return n, err
}
