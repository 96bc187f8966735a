package session

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	"conclave"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// writeStream makes the Writes of one loop to one data node. They go on a stream that
// stays open: the headers and the routing of a request take longer than its content. A
// data node of an older build has a request for each.
type writeStream struct {
	client wirev1connect.DataServiceClient
	table  func() conclave.Epoch

	stream *connect.BidiStreamForClient[wirev1.WriteRequest, wirev1.WriteResponse] // nil: none is open
	end    context.CancelFunc
	began  conclave.Epoch // the table's epoch that the stream was opened with
	older  bool           // the node knows no streams
}

// write makes one Write, until a time at most.
func (s *writeStream) write(ctx context.Context, req *wirev1.WriteRequest, by time.Time) (*wirev1.WriteResponse, error) {
	if s.began != s.table() {
		s.close() // the node compares the epochs of the next one
		s.older = false
	}
	if !s.older {
		res, err := s.exchange(ctx, req, by)
		if errors.Is(err, io.EOF) { // the node has ended it after the answer before
			res, err = s.exchange(ctx, req, by)
		}
		if code := connect.CodeOf(err); err == nil || code != connect.CodeUnimplemented && code != connect.CodePermissionDenied {
			return res, err
		}
	}
	call, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	res, err := s.client.Write(call, connect.NewRequest(req))
	if s.older = err == nil; err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// exchange sends a request and returns its answer. An error ends the stream.
func (s *writeStream) exchange(ctx context.Context, req *wirev1.WriteRequest, by time.Time) (res *wirev1.WriteResponse, err error) {
	if !time.Now().Before(by) { // this process was suspended
		return nil, context.DeadlineExceeded
	}
	if s.stream == nil {
		s.began = s.table() // before the headers name it: at worst the next stream is opened too early
		opened, end := context.WithCancel(ctx)
		s.stream, s.end = s.client.Writes(opened), end
	}
	call, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	ended := make(chan struct{})
	answered := context.AfterFunc(call, func() { // once the stream has been answered, net/http notices the end only when the request's body ends
		defer close(ended)
		s.end()
		_ = s.stream.CloseResponse() // it is given up
	})
	if err = s.stream.Send(req); err == nil || errors.Is(err, io.EOF) { // then Receive has the reason
		res, err = s.stream.Receive()
	}
	inTime := answered()
	if !inTime {
		<-ended
	}
	if !inTime || err != nil {
		s.close()
	}
	return res, err
}

// close ends the stream, if one is open.
func (s *writeStream) close() {
	if s.stream == nil {
		return
	}
	s.end()
	_ = s.stream.CloseRequest() // it is given up
	_ = s.stream.CloseResponse()
	s.stream = nil
}
