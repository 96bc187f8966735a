package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"conclave/wire"
	"conclave/wire/rights"
)

// requireRight refuses requests whose token does not have the right that they
// need, and adds the identity to the context of the others.
func (c RouterConfig) requireRight() mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			need, token := routeOf(r), wire.TokenOf(r.Header)
			id, err := c.identify(need.right, token)
			if err != nil {
				WriteError(w, err)
				return
			}
			ctx := rights.With(r.Context(), id)
			if token != "" && !c.Tokens.Open() && need.lasts {
				var release func()
				ctx, release = c.hold(ctx, w, token, id)
				defer release()
			}
			r = r.WithContext(ctx)
			c.audit(need, w, r, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
		})
	}
}

// identify returns the identity of a request that needs a right, or why it is refused.
func (c RouterConfig) identify(need rights.Right, token string) (rights.Identity, error) {
	id, valid := c.Tokens.Identify(token, c.Address)
	switch {
	case valid && id.May(need):
		return id, nil
	case valid:
		return id, wire.Errorf(wire.CodeForbidden, "this request needs the right %s; %s has the right %s", need, id.Name, id.Right)
	case need == rights.Open:
		return rights.Identity{}, nil
	case token != "":
		return id, wire.Errorf(wire.CodeUnauthorized, "the token of this request is not valid")
	case need == rights.Read && c.PublicReads:
		return rights.Identity{Right: rights.Read}, nil
	}
	return id, wire.Errorf(wire.CodeUnauthorized, "this request needs the header Authorization: Bearer TOKEN, with the right %s", need)
}

// hold ends the request when its token is revoked: its context ends, and what it
// reads fails. release must be called before the handler returns.
func (c RouterConfig) hold(ctx context.Context, w http.ResponseWriter, token string, id rights.Identity) (held context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	response := http.NewResponseController(w)
	var mu sync.Mutex // guards ended; held while the deadline is set, which waits for no peer
	ended := false
	h := c.Tokens.Hold(token, c.Address, id, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			cancel(wire.Errorf(wire.CodeUnauthorized, "the token was revoked"))
			_ = response.SetReadDeadline(time.Unix(1, 0)) // fails only when the request has ended
		}
	})
	return ctx, func() {
		h.Release()
		mu.Lock()
		ended = true
		mu.Unlock()
		cancel(nil)
	}
}
