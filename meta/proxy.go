package meta

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"conclave/wire"
	"conclave/wire/serve"
)

// headerProxied marks a request that a meta has forwarded. It is not forwarded
// again, so that two nodes that take each other for the leader do not forward
// it in a circle.
const headerProxied = "Conclave-Proxied"

// proxyLimit returns how long the leader may take: longer than a command, which
// waits two node leases for its effect (6 s by default, 40 s with the profile
// sofa), so that the leader's own answer arrives first. If the request were cut
// off, the client would take it for one that no node received, and ask the next
// meta.
func proxyLimit(nodeLease time.Duration) time.Duration { return max(10*time.Second, 3*nodeLease) }

// proxy answers on the leader, and forwards to it from the other metas.
type proxy struct {
	config     Config
	leadership *leadership
	http       *http.Client
	// forwards returns the credential with which a request is passed on to a node.
	forwards func(credential, to string) string
}

// forward sends a request to the leader that the refusal names, with query and
// body unchanged, and returns the leader's answer. The original redirects, and
// loses the query.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request, refusal error) {
	var leader *wire.Error
	if !errors.As(refusal, &leader) || leader.Address == "" || r.Header.Get(headerProxied) != "" {
		serve.WriteError(w, wire.NotLeader("", ""))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), proxyLimit(p.config.NodeLease))
	defer cancel()
	url := *r.URL
	url.Scheme, url.Host = "http", leader.Address
	out, err := http.NewRequestWithContext(ctx, r.Method, url.String(), r.Body) //nolint:gosec // the leader's address is that of the lock row
	if err != nil {
		serve.WriteError(w, wire.Errorf(wire.CodeInternal, "forward to %s: %v", leader.Address, err))
		return
	}
	out.ContentLength = r.ContentLength
	wire.SetToken(out.Header, p.forwards(wire.TokenOf(r.Header), leader.Address))
	for _, h := range []string{"Content-Type", "Accept"} {
		if v := r.Header.Get(h); v != "" {
			out.Header.Set(h, v)
		}
	}
	out.Header.Set(headerProxied, p.config.Node.Name)
	res, err := p.http.Do(out) //nolint:gosec // as above
	if err != nil {
		// The node that this one takes for the leader does not answer. Whether
		// another one leads is not known here yet.
		serve.WriteError(w, wire.Errorf(wire.CodeNoLeader, "the leader %s at %s does not answer", leader.Leader, leader.Address))
		return
	}
	defer res.Body.Close()
	for _, h := range []string{"Content-Type", "Link"} {
		if v := res.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body) // fails only if the client or the leader is gone
}

// byLeader is byTerm for what needs the state that the leader before has written.
func (p *proxy) byLeader(h func(*leader, *http.Request) (any, error)) http.Handler {
	return p.byTerm(func(l *leader, r *http.Request) (any, error) {
		select { // until then this leader knows no member
		case <-l.loaded:
			return h(l, r)
		case <-l.ctx.Done():
		case <-r.Context().Done():
		}
		return nil, wire.NotLeader("", "")
	})
}

// byTerm answers with the result of h if this node leads, otherwise with the leader's
// answer.
func (p *proxy) byTerm(h func(*leader, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, err := p.leadership.asLeader()
		if err != nil {
			p.forward(w, r, err)
			return
		}
		body, err := h(l, r)
		if err != nil {
			serve.WriteError(w, err)
			return
		}
		if p, ok := body.(paged); ok {
			if body = p.body; p.next != "" {
				w.Header().Set("Link", serve.NextPage(r, p.next))
			}
		}
		serve.WriteJSON(w, http.StatusOK, body)
	})
}

// getLeaderz answers 200 only on the node that leads with a valid lease, for
// load balancers and probes.
func (p *proxy) getLeaderz(w http.ResponseWriter, _ *http.Request) {
	l, err := p.leadership.asLeader()
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	serve.WriteJSON(w, http.StatusOK, map[string]any{"leader": p.config.Node.Name, "term": l.term.Number})
}

// paged is an answer of which there is a next page, unless next is "".
type paged struct {
	body any
	next string // the key after which it begins
}

// cut answers with the page of a sorted list that the request asks for.
func cut[T any](r *http.Request, list []T, key func(T) string) (any, error) {
	page, err := serve.PageOf(r)
	if err != nil {
		return nil, err
	}
	rows, next := serve.Cut(list, page, key)
	return paged{rows, next}, nil
}
