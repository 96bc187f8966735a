package console

import (
	"context"

	"conclave/testbed/console/journal"
)

// Source is what the page shows, and what can be done there: a running cluster, or a
// recording. Its methods but Run are called from several goroutines at once.
type Source interface {
	// Run shows states and events until ctx ends. It is called once.
	Run(ctx context.Context, hub *Hub) error
	// Acts returns who may ask for an act; it does not change.
	Acts() Acts
	// Explain returns in one sentence what an act would do now, or why it cannot be
	// done. It changes nothing.
	Explain(ctx context.Context, r Request) (string, error)
	// Why returns what led to the violation or to what was last, the newest first
	// (journal.Why), or to the record of a recording that r.Value numbers.
	Why(ctx context.Context, r Request) ([]journal.Link, error)
	// Act does it. It returns when that has begun; what comes of it is shown.
	Act(ctx context.Context, r Request) error
}

// Acts is who may ask a Source for acts.
type Acts int

// Who may.
const (
	Nobody   Acts = iota // it is only watched
	Holder               // of the one-time link
	Everyone             // who may watch: acts change only what is shown
)

// Request is what a viewer asks for: a fault or a command of an operator on a live
// cluster, or a control of a recording.
type Request struct {
	Do    string `json:"do"`              // the name of an Offer
	Node  string `json:"node,omitempty"`  // on which node
	Peer  string `json:"peer,omitempty"`  // cut: from which other one
	Value string `json:"value,omitempty"` // a scenario, a seed, a position
}

// Answers are the answers of a source to what a page posts, by path.
var Answers = map[string]func(ctx context.Context, s Source, r Request) (any, error){
	"v1/explain": func(ctx context.Context, s Source, r Request) (any, error) {
		says, err := s.Explain(ctx, r)
		return map[string]string{"says": says}, err
	},
	"v1/why": func(ctx context.Context, s Source, r Request) (any, error) {
		links, err := s.Why(ctx, r)
		return map[string]any{"links": links}, err
	},
	"v1/act": func(ctx context.Context, s Source, r Request) (any, error) {
		return map[string]bool{"ok": true}, s.Act(ctx, r)
	},
}
