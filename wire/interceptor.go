package wire

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"conclave"
	"conclave/wire/rights"
	"conclave/wire/v1/wirev1connect"
)

// The headers of requests and answers between roles. A leader's command carries
// its term. Every message carries the epoch of its sender's slot table, so that
// a node whose table is older can fetch the newer one from that peer, even
// while it reaches no meta node.
const (
	headerTerm    = "Conclave-Term"
	headerTable   = "Conclave-Table"
	headerAddress = "Conclave-Address"
)

// Interceptor runs before every RPC that a node makes or answers. It refuses
// commands of older terms, sends and compares table epochs, and sends the
// token.
type Interceptor struct {
	// Address is the node's advertised address, sent with every call.
	Address string
	// View and Fence are the node's. They are nil for a client, which has
	// neither.
	View  *View
	Fence *Fence
	// Token returns what is sent with a call to an address: a token, one that is bound
	// to the address, or "" for none. It is nil if there is never one. The call that
	// asks for the identity of a node is sent without.
	Token func(address string) string
	// Behind is called when the peer at address has a newer table than this
	// node. It must not block. If it is nil, newer tables are ignored.
	Behind func(address string, theirs conclave.Epoch)
}

var _ connect.Interceptor = (*Interceptor)(nil)

type termKey struct{}

// WithTerm marks the calls made with the returned context as commands of a
// leader's term.
func WithTerm(ctx context.Context, term uint64) context.Context {
	return context.WithValue(ctx, termKey{}, term)
}

// WrapUnary implements connect.Interceptor for calls with one answer, at both
// ends.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			i.setHeaders(ctx, req.Spec().Procedure, req.Peer().Addr, req.Header())
			res, err := next(ctx, req)
			if err == nil && req.Spec().Procedure != wirev1connect.NodeServiceHelloProcedure { // a stranger may have answered
				i.compare(res.Header().Get(headerTable), req.Peer().Addr)
			}
			return res, err
		}
		if err := i.admit(ctx, req.Header()); err != nil {
			return nil, ToConnect(err)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, ToConnect(err)
		}
		i.setTable(res.Header())
		return res, nil
	}
}

// WrapStreamingClient implements connect.Interceptor for streams that this node
// opens.
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		i.setHeaders(ctx, spec.Procedure, conn.Peer().Addr, conn.RequestHeader())
		return &comparing{StreamingClientConn: conn, interceptor: i}
	}
}

// comparing is a stream that compares the tables with the first answer.
type comparing struct {
	connect.StreamingClientConn
	interceptor *Interceptor
	compared    bool
}

// Receive implements connect.StreamingClientConn.
func (c *comparing) Receive(m any) error {
	err := c.StreamingClientConn.Receive(m)
	if err == nil && !c.compared {
		c.compared = true
		c.interceptor.compare(c.ResponseHeader().Get(headerTable), c.Peer().Addr)
	}
	return err
}

// WrapStreamingHandler implements connect.Interceptor for streams that this
// node answers.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := i.admit(ctx, conn.RequestHeader()); err != nil {
			return ToConnect(err)
		}
		i.setTable(conn.ResponseHeader())
		return ToConnect(next(ctx, conn))
	}
}

func (i *Interceptor) setHeaders(ctx context.Context, procedure, address string, h http.Header) {
	if term, ok := ctx.Value(termKey{}).(uint64); ok {
		h.Set(headerTerm, strconv.FormatUint(term, 10))
	}
	if i.Token != nil && procedure != wirev1connect.NodeServiceHelloProcedure {
		SetToken(h, i.Token(address))
	}
	if i.Address != "" {
		h.Set(headerAddress, i.Address)
	}
	i.setTable(h)
}

func (i *Interceptor) setTable(h http.Header) {
	if e := tableOf(i.View); e != "" {
		h.Set(headerTable, e)
	}
}

// HasTable reports whether the headers of an answer name the present table of a view.
func HasTable(h http.Header, v *View) bool { return h.Get(headerTable) == tableOf(v) }

// tableOf returns the epoch of a view's table as it is sent; "" if there is none.
func tableOf(v *View) string {
	if v == nil || v.TableEpoch().IsZero() {
		return ""
	}
	return v.TableEpoch().String()
}

// SetToken adds a token to the headers of a request, unless it is "".
func SetToken(h http.Header, token string) {
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

// TokenOf returns the token in the headers of a request, or "".
func TokenOf(h http.Header) string {
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// admit refuses a command of an older term, and compares the tables. The headers
// of a caller that may not act as a node are ignored.
func (i *Interceptor) admit(ctx context.Context, h http.Header) error {
	if id, known := rights.Of(ctx); known && !id.May(rights.Node) {
		return nil
	}
	if s := h.Get(headerTerm); s != "" && i.Fence != nil {
		term, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return Errorf(CodeBadRequest, "header %s: %q is not a term", headerTerm, s)
		}
		if err := i.Fence.Admit(term); err != nil {
			return err
		}
	}
	i.compare(h.Get(headerTable), h.Get(headerAddress))
	return nil
}

func (i *Interceptor) compare(theirs, address string) {
	if theirs == "" || address == "" || i.View == nil || i.Behind == nil {
		return
	}
	term, seq, ok := strings.Cut(theirs, ".")
	if !ok {
		return
	}
	t, err1 := strconv.ParseUint(term, 10, 64)
	s, err2 := strconv.ParseUint(seq, 10, 64)
	if e := (conclave.Epoch{Term: t, Seq: s}); err1 == nil && err2 == nil && i.View.TableEpoch().Less(e) {
		i.Behind(address, e)
	}
}

// HasTerm reports whether a request is the command of a leader.
func HasTerm(h http.Header) bool { return h.Get(headerTerm) != "" }

// CallerAddress returns the advertised address of the node that made a request,
// or "" if it sent none.
func CallerAddress(h http.Header) string { return h.Get(headerAddress) }
