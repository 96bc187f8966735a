package meta

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"conclave/wire"
)

// headerProxied marks a request that a meta has handed on. It is not handed on
// again, so that two nodes that take each other for the leader make no circle.
const headerProxied = "Conclave-Proxied"

// proxyLimit is how long the leader may take: longer than a command, which waits two
// node leases for its effect (6 s by default, 40 s with the profile sofa), so that its
// own answer comes first. Cut off it is taken for one that nobody has had, and is
// asked again of the next meta.
func (s *Server) proxyLimit() time.Duration { return max(10*time.Second, 3*s.cfg.NodeLease) }

// proxy hands a request on to the leader that the refusal names, query and body
// as they came, and answers what the leader answers. The original redirects, and
// loses the query on the way.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, refusal error) {
	var who *wire.Error
	if !errors.As(refusal, &who) || who.Address == "" || r.Header.Get(headerProxied) != "" {
		wire.WriteError(w, wire.NotLeader("", ""))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.proxyLimit())
	defer cancel()
	url := *r.URL
	url.Scheme, url.Host = "http", who.Address
	out, err := http.NewRequestWithContext(ctx, r.Method, url.String(), r.Body)
	if err != nil {
		wire.WriteError(w, wire.Errorf(wire.CodeInternal, "hand on to %s: %v", who.Address, err))
		return
	}
	out.ContentLength = r.ContentLength
	for _, h := range []string{"Authorization", "Content-Type", "Accept"} {
		if v := r.Header.Get(h); v != "" {
			out.Header.Set(h, v)
		}
	}
	out.Header.Set(headerProxied, s.cfg.Node.Name)
	res, err := s.peers.HTTP().Do(out)
	if err != nil {
		// Whom we take for the leader does not answer: whether somebody else
		// leads is not known here yet.
		wire.WriteError(w, wire.Errorf(wire.CodeNoLeader, "the leader %s at %s does not answer", who.Leader, who.Address))
		return
	}
	defer res.Body.Close()
	if v := res.Header.Get("Content-Type"); v != "" {
		w.Header().Set("Content-Type", v)
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body) // the client or the leader is gone: nobody is left to tell
}
