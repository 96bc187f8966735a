package glue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"conclave/testbed/console"
)

// Handler answers a request of one path with what is encoded as JSON.
type Handler func(ctx context.Context, body []byte) (any, error)

// Server answers a page: v1/stream, v1/rights and console.Answers for the source that it
// shows, and the paths of its handlers. Show may be called at any time.
type Server struct {
	hub      *console.Hub
	handlers map[string]Handler

	mu     sync.Mutex // guards source
	source console.Source

	showing sync.Mutex // held while a source is replaced; guards end
	end     func()     // ends the source and waits for it
}

// NewServer returns a server that shows nothing yet. The handlers are those of paths that a
// source does not have, by method and path, such as "POST v1/recording".
func NewServer(handlers map[string]Handler) *Server {
	return &Server{hub: console.NewHub(), handlers: handlers, end: func() {}}
}

// Show ends the source that is shown, and runs another one until ctx ends.
func (s *Server) Show(ctx context.Context, source console.Source) {
	s.showing.Lock()
	defer s.showing.Unlock()
	s.end()
	s.mu.Lock()
	s.source = source
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx, s.hub) // the page shows what a source has to say
	}()
	s.end = func() { cancel(); <-done }
}

// Serve answers messages until the channel is closed; then it ends the source.
func (s *Server) Serve(ctx context.Context, messages <-chan Message) {
	ctx, cancel := context.WithCancel(ctx)
	streams := map[int]context.CancelFunc{}
	var all sync.WaitGroup
	for m := range messages {
		switch end := streams[m.ID]; {
		case m.Close:
			if delete(streams, m.ID); end != nil {
				end()
			}
		case m.Method == "GET" && m.Path == "v1/stream":
			watching, stop := context.WithCancel(ctx)
			streams[m.ID] = stop
			all.Go(func() {
				s.hub.Follow(watching, func(kind string, content []byte) { m.Send(Answer{Status: 200, Event: kind, Body: content}) })
			})
		default:
			all.Go(func() { m.answer(s.answer(ctx, m)) })
		}
	}
	cancel()
	all.Wait()
	s.showing.Lock()
	defer s.showing.Unlock()
	s.end()
}

func (s *Server) answer(ctx context.Context, m Message) (any, error) {
	what := m.Method + " " + m.Path
	if h := s.handlers[what]; h != nil {
		return h(ctx, m.Body)
	}
	s.mu.Lock()
	source := s.source
	s.mu.Unlock()
	if what == "GET v1/rights" {
		return map[string]bool{"act": source != nil && source.Acts() == console.Holder}, nil
	}
	var q console.Request
	in := json.NewDecoder(bytes.NewReader(m.Body))
	in.DisallowUnknownFields()
	if source == nil {
		return nil, errors.New("nothing is shown yet")
	} else if err := in.Decode(&q); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	if answer := console.Answers[m.Path]; answer != nil && m.Method == "POST" {
		return answer(ctx, source, q)
	}
	return nil, fmt.Errorf("%s: there is no such path", what)
}
