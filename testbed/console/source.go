package console

import "context"

// Source produces what the page shows.
type Source interface {
	// Run shows states until ctx ends. It is called once.
	Run(ctx context.Context, hub *Hub) error
}

// Request is what a viewer asks for: a fault or a command of an operator on a live
// cluster, or a control of a recording.
type Request struct {
	Do    string `json:"do"`              // the name of an Offer
	Node  string `json:"node,omitempty"`  // on which node
	Peer  string `json:"peer,omitempty"`  // cut: from which other one
	Value string `json:"value,omitempty"` // a scenario, a seed, a position
}

// Actor does what viewers ask for. Its methods are called from several
// goroutines at once.
type Actor interface {
	// Explain returns in one sentence what the request would do now, or why it
	// cannot be done. It changes nothing.
	Explain(ctx context.Context, r Request) (string, error)
	// Act does it. It returns when that has begun; what comes of it is shown by the
	// source.
	Act(ctx context.Context, r Request) error
	// Harmless reports whether the request changes nothing but what is shown, as
	// the controls of a recording: everyone who may watch may ask for it.
	Harmless(r Request) bool
}
