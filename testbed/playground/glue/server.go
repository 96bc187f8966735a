package glue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"conclave/testbed/console"
)

// Message is what the page sends: a request, or the end of a stream.
type Message struct {
	ID    int          // of the request; its answers have the same
	Close bool         // the page does not want further events of the stream
	Path  string       // without a slash before it: v1/act
	Body  []byte       // JSON; nil: the request only asks
	Send  func(Answer) // sends an answer to the page
}

// Answer is what the page gets: the answer to a request or, with Event, one event of a
// stream.
type Answer struct {
	Event string // snapshot or change
	Body  []byte // JSON
}

// Handler answers a request of one path with what is encoded as JSON.
type Handler func(ctx context.Context, body []byte) (any, error)

// Serve runs a source and answers the messages of a page: v1/stream, v1/rights,
// console.Answers, and the paths of more, which a source does not have. When the channel is
// closed, it ends the source.
func Serve(ctx context.Context, source console.Source, more map[string]Handler, messages <-chan Message) {
	ctx, cancel := context.WithCancel(ctx)
	hub, streams := console.NewHub(), map[int]context.CancelFunc{}
	var all sync.WaitGroup
	all.Go(func() { _ = source.Run(ctx, hub) }) // the page shows what a source has to say
	for m := range messages {
		switch end := streams[m.ID]; {
		case m.Close:
			if delete(streams, m.ID); end != nil {
				end()
			}
		case m.Path == "v1/stream":
			watching, stop := context.WithCancel(ctx)
			streams[m.ID] = stop
			all.Go(func() {
				hub.Follow(watching, func(kind string, content []byte) { m.Send(Answer{Event: kind, Body: content}) })
			})
		default:
			all.Go(func() { m.answer(answer(ctx, source, more, m)) })
		}
	}
	cancel()
	all.Wait()
}

func answer(ctx context.Context, source console.Source, more map[string]Handler, m Message) (any, error) {
	if h := more[m.Path]; h != nil {
		return h(ctx, m.Body)
	}
	if m.Path == "v1/rights" {
		return map[string]bool{"act": source.Acts() == console.Holder}, nil
	}
	answer := console.Answers[m.Path]
	if answer == nil {
		return nil, fmt.Errorf("%s: there is no such path", m.Path)
	}
	var q console.Request
	in := json.NewDecoder(bytes.NewReader(m.Body))
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	return answer(ctx, source, q)
}

// answer sends what was returned for a request.
func (m Message) answer(content any, err error) {
	if err != nil {
		content = map[string]any{"error": map[string]string{"message": err.Error()}}
	}
	body, err := json.Marshal(content)
	if err != nil { // what handlers return can be encoded
		panic(err)
	}
	m.Send(Answer{Body: body})
}
