package wire

import (
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Code names what went wrong, in both the RPC and the HTTP API.
type Code string

// The codes, each with the moment at which a caller meets it.
const (
	CodeNotLeader    Code = "not_leader"   // the asked meta does not lead; Leader and Address say who does, when known
	CodeNoLeader     Code = "no_leader"    // nobody leads just now: try again
	CodeStaleEpoch   Code = "stale_epoch"  // a command of an older term or epoch than the receiver has seen; Epoch is its highest
	CodeNoSuccessor  Code = "no_successor" // a drain that nobody could take over from
	CodeUnsafe       Code = "unsafe"       // an operator's act after which the cluster would not serve; it can be forced
	CodeConflict     Code = "conflict"     // the thing exists, lives, or changed meanwhile
	CodeNotFound     Code = "not_found"    // no such node, key, slot
	CodeBadRequest   Code = "bad_request"  // the request is wrong and will always be
	CodeTooLarge     Code = "too_large"    // over a limit
	CodeUnauthorized Code = "unauthorized" // a token is configured and was not shown
	CodeUnavailable  Code = "unavailable"  // starting, draining, or cut off: try again, perhaps elsewhere
	CodeInternal     Code = "internal"     // a fault of the node itself
)

// Error is what every node answers when it does not do what it was asked for.
type Error struct {
	Code    Code
	Message string
	Leader  string         // of not_leader: the leader's name
	Address string         // of not_leader: where it answers
	Epoch   conclave.Epoch // of stale_epoch: the highest that the refuser has seen
}

// Errorf makes an Error of a code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotLeader is the refusal of a meta that does not lead, naming the one that
// does; with no name it is no_leader.
func NotLeader(leader, address string) *Error {
	if leader == "" {
		return Errorf(CodeNoLeader, "no meta node leads just now")
	}
	e := Errorf(CodeNotLeader, "the leader is %s at %s", leader, address)
	e.Leader, e.Address = leader, address
	return e
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// codes maps each code to its Connect code and HTTP status: the only place
// where they meet.
var codes = map[Code]struct {
	rpc    connect.Code
	status int
}{
	CodeNotLeader:    {connect.CodeFailedPrecondition, http.StatusServiceUnavailable},
	CodeNoLeader:     {connect.CodeUnavailable, http.StatusServiceUnavailable},
	CodeStaleEpoch:   {connect.CodeAborted, http.StatusConflict},
	CodeNoSuccessor:  {connect.CodeFailedPrecondition, http.StatusConflict},
	CodeUnsafe:       {connect.CodeFailedPrecondition, http.StatusConflict},
	CodeConflict:     {connect.CodeAlreadyExists, http.StatusConflict},
	CodeNotFound:     {connect.CodeNotFound, http.StatusNotFound},
	CodeBadRequest:   {connect.CodeInvalidArgument, http.StatusBadRequest},
	CodeTooLarge:     {connect.CodeResourceExhausted, http.StatusRequestEntityTooLarge},
	CodeUnauthorized: {connect.CodeUnauthenticated, http.StatusUnauthorized},
	CodeUnavailable:  {connect.CodeUnavailable, http.StatusServiceUnavailable},
	CodeInternal:     {connect.CodeInternal, http.StatusInternalServerError},
}

// Status is the HTTP status that the code goes out with.
func (e *Error) Status() int { return codes[e.Code].status }

// ToConnect dresses err for an RPC answer. Whatever is no *Error is internal.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	var already *connect.Error
	if errors.As(err, &already) {
		return err
	}
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(CodeInternal, "%v", err)
	}
	out := connect.NewError(codes[e.Code].rpc, errors.New(e.Message))
	detail, derr := connect.NewErrorDetail(&wirev1.ErrorDetail{
		Code: string(e.Code), Leader: e.Leader, LeaderAddress: e.Address, Epoch: EpochOut(e.Epoch),
	})
	if derr == nil {
		out.AddDetail(detail)
	}
	return out
}

// FromConnect reads the Error out of a failed RPC. A failure that carries none
// (a broken connection, a peer that is no Conclave) is unavailable: transport
// errors are all treated alike. The original error stays in the chain.
func FromConnect(err error) error {
	if err == nil {
		return nil
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return &transportError{Errorf(CodeUnavailable, "%v", err), err}
	}
	for _, d := range ce.Details() {
		v, derr := d.Value()
		if derr != nil {
			continue
		}
		if d, ok := v.(*wirev1.ErrorDetail); ok {
			return &Error{Code: Code(d.Code), Message: ce.Message(), Leader: d.Leader, Address: d.LeaderAddress, Epoch: EpochIn(d.Epoch)}
		}
	}
	if ce.Code() == connect.CodeResourceExhausted {
		return &transportError{Errorf(CodeTooLarge, "%s", ce.Message()), err}
	}
	if ce.Code() == connect.CodeUnauthenticated {
		return &transportError{Errorf(CodeUnauthorized, "%s", ce.Message()), err}
	}
	return &transportError{Errorf(CodeUnavailable, "%s", ce.Message()), err}
}

// CodeOf is the code in err's chain, "" when it has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// transportError is an unavailable peer together with how the transport said
// so, so that Refused still sees a refused dial.
type transportError struct {
	as    *Error
	cause error
}

func (e *transportError) Error() string   { return e.as.Error() }
func (e *transportError) Unwrap() []error { return []error{e.as, e.cause} }
