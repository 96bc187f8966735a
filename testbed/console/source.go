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
	// List returns a page of the services, publishers or subscribers, whichever r.Do names,
	// that have r.Value in their name, address or client: under the name r.Of or, if that is
	// "", under all. Nothing that it returns lets a reader act as a client.
	List(ctx context.Context, r Request) (Listing, error)
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
	Value string `json:"value,omitempty"` // a scenario, a seed, a position, a part of a name
	Of    string `json:"of,omitempty"`    // list: under which name
	After string `json:"after,omitempty"` // list: Listing.Next of the page before
	By    string `json:"-"`               // the host of the viewer; "" in this process
}

// Listing is a page of a list that the nodes have.
type Listing struct {
	Rows   any      `json:"rows"`             // each has the row of a node's list, and the node
	Next   string   `json:"next,omitempty"`   // Request.After of the next page; "": there is none
	Silent []string `json:"silent,omitempty"` // nodes that did not answer: what only they know is missing
	Pushes []Push   `json:"pushes,omitempty"` // the last ones under Request.Of, the newest first
}

// Push is one version of a list that a session has pushed.
type Push struct {
	AtMs        int64  `json:"atMs"`
	Session     string `json:"session"`
	Version     int64  `json:"version"`
	Values      int    `json:"values"`
	Subscribers int    `json:"subscribers"` // to how many
}

// ListPath is the path of what is asked for by everyone who may watch.
const ListPath = "v1/list"

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
	ListPath: func(ctx context.Context, s Source, r Request) (any, error) { return s.List(ctx, r) },
	"v1/act": func(ctx context.Context, s Source, r Request) (any, error) {
		return map[string]bool{"ok": true}, s.Act(ctx, r)
	},
}
