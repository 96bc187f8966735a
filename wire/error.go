package wire

import (
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"conclave"
	wirev1 "conclave/wire/v1"
)

// Code identifies an error, in the RPC and in the HTTP API.
type Code string

// The codes.
const (
	CodeNotLeader    Code = "not_leader"    // the meta node does not lead; Leader and Address name the one that does, if known
	CodeNoLeader     Code = "no_leader"     // no meta node leads at the moment: try again
	CodeStaleEpoch   Code = "stale_epoch"   // the command is of an older term or epoch than the receiver has seen; Epoch is the highest seen
	CodeNoSuccessor  Code = "no_successor"  // the node cannot be drained: no other node could take over
	CodeUnsafe       Code = "unsafe"        // the cluster would not serve after the operator's action; it can be forced
	CodeConflict     Code = "conflict"      // the object already exists, is alive, or has changed meanwhile
	CodeNotFound     Code = "not_found"     // no such node, key, slot
	CodeBadRequest   Code = "bad_request"   // the request is invalid; repeating it does not help
	CodeTooLarge     Code = "too_large"     // over a limit of what one request may have; repeating it does not help
	CodeLimitReached Code = "limit_reached" // over a limit of what the client or its address may hold here: there may be room later, or at another node
	CodeUnauthorized Code = "unauthorized"  // a valid token is required and was not sent
	CodeForbidden    Code = "forbidden"     // the token does not have the right; or a browser sends this request for a page that is not the node's
	CodeUnavailable  Code = "unavailable"   // starting, draining, or disconnected: try again, perhaps at another node
	CodeInternal     Code = "internal"      // a fault in the node itself
)

// Error is a node's answer to a request that it refuses or cannot carry out.
type Error struct {
	Code    Code
	Message string
	Leader  string         // for not_leader: the leader's name
	Address string         // for not_leader: the leader's address
	Epoch   conclave.Epoch // for stale_epoch: the highest that the refusing node has seen
}

// UnlessForced ends the message of a request that was refused because the
// cluster would not serve afterwards. Tools whose users do not speak HTTP leave
// it out.
const UnlessForced = "; not done unless it is forced (?force=true)"

// Errorf returns an Error with a code and a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotLeader returns the error of a meta node that does not lead, naming the
// leader. If leader is empty, the code is CodeNoLeader.
func NotLeader(leader, address string) *Error {
	if leader == "" {
		return Errorf(CodeNoLeader, "no meta node leads at the moment")
	}
	e := Errorf(CodeNotLeader, "the leader is %s at %s", leader, address)
	e.Leader, e.Address = leader, address
	return e
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// codes is the only mapping of codes to Connect codes and HTTP statuses.
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
	CodeLimitReached: {connect.CodeResourceExhausted, http.StatusTooManyRequests},
	CodeUnauthorized: {connect.CodeUnauthenticated, http.StatusUnauthorized},
	CodeForbidden:    {connect.CodePermissionDenied, http.StatusForbidden},
	CodeUnavailable:  {connect.CodeUnavailable, http.StatusServiceUnavailable},
	CodeInternal:     {connect.CodeInternal, http.StatusInternalServerError},
}

// Status returns the HTTP status of the code.
func (e *Error) Status() int { return codes[e.Code].status }

// ToConnect converts err to a Connect error. An error that has no *Error in its
// chain becomes CodeInternal.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	if _, already := errors.AsType[*connect.Error](err); already {
		return err
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
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

// FromConnect returns the Error that a failed RPC carries. A failure without
// one (a broken connection, a peer that is not a Conclave node) becomes
// CodeUnavailable, since all transport errors are treated alike. The original
// error stays in the chain.
func FromConnect(err error) error {
	if err == nil {
		return nil
	}
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
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
	code := CodeUnavailable
	switch ce.Code() {
	case connect.CodeResourceExhausted:
		code = CodeTooLarge
	case connect.CodeUnauthenticated:
		code = CodeUnauthorized
	case connect.CodePermissionDenied:
		code = CodeForbidden
	}
	return &transportError{Errorf(code, "%s", ce.Message()), err}
}

// CodeOf returns the code of the *Error in err's chain, or "" if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// transportError is an Error together with the error of the transport, so that
// Refused can still find a refused dial.
type transportError struct {
	as    *Error
	cause error
}

func (e *transportError) Error() string   { return e.as.Error() }
func (e *transportError) Unwrap() []error { return []error{e.as, e.cause} }
