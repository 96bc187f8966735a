package data

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// Write stores a session's registrations, of a session that knows no Writes.
func (s *service) Write(_ context.Context, req *connect.Request[wirev1.WriteRequest]) (*connect.Response[wirev1.WriteResponse], error) {
	res, err := s.write(req.Msg, wire.CallerAddress(req.Header()))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}

// Writes is Write for one request after the other. The stream ends, without an error, when
// the table has another epoch than its headers say: they are compared again when the session
// opens the next one.
func (s *service) Writes(_ context.Context, stream *connect.BidiStream[wirev1.WriteRequest, wirev1.WriteResponse]) error {
	address := wire.CallerAddress(stream.RequestHeader())
	for wire.HasTable(stream.ResponseHeader(), s.view) {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		res, err := s.write(req, address)
		if err != nil {
			return err
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
	return nil
}

// check checks a whole request before any of it is applied, and returns the replica of
// each of its batches.
func (s *service) check(session conclave.NodeID, m *wirev1.WriteRequest) ([]*replica, error) {
	if session.Name == "" || session.Incarnation == "" {
		return nil, wire.Errorf(wire.CodeBadRequest, "the write does not name its session and incarnation")
	}
	out := make([]*replica, 0, len(m.GetBatches()))
	for _, b := range m.GetBatches() {
		r, err := s.replica(b.GetSlot())
		if err != nil {
			return nil, err
		}
		for _, p := range b.GetPuts() {
			if err := wire.CheckPublisher(p); err != nil {
				return nil, err
			}
			if of := slot.Of(p.GetDataInfoId(), len(s.replicas.all())); of != r.id {
				return nil, wire.Errorf(wire.CodeBadRequest, "%s belongs to slot %d, not to slot %d", p.GetDataInfoId(), of, r.id)
			}
		}
		out = append(out, r)
	}
	return out, nil
}
