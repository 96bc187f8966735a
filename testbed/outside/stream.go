package outside

import (
	"context"
	"net/http"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
)

// Stream is the events of the node at an address. One goroutine uses it.
type Stream struct {
	Address string
	Within  time.Duration // in which the node is to say which incarnation it is
	Life    string        // the node's incarnation, once it is known
	last    uint64        // id of the last event that was read
}

// Read calls each with the events that were not read yet: of another incarnation all,
// since an id that it does not have yet leads to none.
func (s *Stream) Read(ctx context.Context, via *http.Client, token string, follow bool, each func(wire.Event) error) error {
	asking, cancel := context.WithTimeout(ctx, s.Within)
	node, _ := Probe(asking, via, s.Address) // "" if none answers
	cancel()
	if node.Incarnation != s.Life && node.Incarnation != "" {
		s.Life, s.last = node.Incarnation, 0
	}
	return wire.ReadEvents(ctx, via, s.Address, token, s.last, follow, func(e wire.Event) error {
		s.last = e.ID
		return each(e)
	})
}

// Follow calls each with all events until ctx ends. After any error it connects again.
func (s *Stream) Follow(ctx context.Context, via *http.Client, tokenFor func(address string) string, each func(wire.Event) error) {
	for ctx.Err() == nil {
		_ = s.Read(ctx, via, tokenFor(s.Address), true, each)
		_ = sleep.For(ctx, 200*time.Millisecond) // the loop asks whether ctx has ended
	}
}
