package glue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"conclave/testbed/console"
)

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
				hub.Follow(watching, func(kind string, content []byte) { m.Send(Answer{Status: 200, Event: kind, Body: content}) })
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
