package wire

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"conclave"
)

// The headers that requests and answers between roles carry. A command of
// leadership names its term; everything names the slot table its sender holds,
// so that whoever is behind can fetch the table from the peer that is ahead,
// also while no meta can be reached.
const (
	headerTerm    = "Conclave-Term"
	headerTable   = "Conclave-Table"
	headerAddress = "Conclave-Address"
)

// Interceptor stands before every RPC that a node makes or answers: it refuses
// commands of older terms, says and compares table epochs, and shows the token.
type Interceptor struct {
	// Address is where this node answers, told to whom it calls.
	Address string
	// View and Fence are the node's; nil for a client, which has neither.
	View  *View
	Fence *Fence
	// Token is shown with every call when it is not empty.
	Token string
	// Behind is called, and must not block, when a peer at address holds a newer
	// table than this node. Nil: nothing is done about it.
	Behind func(address string, theirs conclave.Epoch)
}

var _ connect.Interceptor = (*Interceptor)(nil)

type termKey struct{}

// WithTerm marks the calls made under ctx as commands of a leader's term.
func WithTerm(ctx context.Context, term uint64) context.Context {
	return context.WithValue(ctx, termKey{}, term)
}

// WrapUnary covers calls with one answer, on both sides.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			i.say(ctx, req.Header())
			res, err := next(ctx, req)
			if err == nil {
				i.compare(res.Header().Get(headerTable), req.Peer().Addr)
			}
			return res, err
		}
		if err := i.admit(req.Header()); err != nil {
			return nil, ToConnect(err)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, ToConnect(err)
		}
		i.sayTable(res.Header())
		return res, nil
	}
}

// WrapStreamingClient covers streams that this node opens.
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		i.say(ctx, conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler covers streams that this node answers.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := i.admit(conn.RequestHeader()); err != nil {
			return ToConnect(err)
		}
		i.sayTable(conn.ResponseHeader())
		return ToConnect(next(ctx, conn))
	}
}

func (i *Interceptor) say(ctx context.Context, h http.Header) {
	if term, ok := ctx.Value(termKey{}).(uint64); ok {
		h.Set(headerTerm, strconv.FormatUint(term, 10))
	}
	if i.Token != "" {
		h.Set("Authorization", "Bearer "+i.Token)
	}
	if i.Address != "" {
		h.Set(headerAddress, i.Address)
	}
	i.sayTable(h)
}

func (i *Interceptor) sayTable(h http.Header) {
	if i.View != nil {
		if e := i.View.TableEpoch(); !e.IsZero() {
			h.Set(headerTable, e.String())
		}
	}
}

func (i *Interceptor) admit(h http.Header) error {
	if s := h.Get(headerTerm); s != "" && i.Fence != nil {
		term, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return Errorf(CodeBadRequest, "header %s: %q is no term", headerTerm, s)
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

// CallerAddress is where the node that made a request answers; "" when it does
// not say.
func CallerAddress(h http.Header) string { return h.Get(headerAddress) }
