package zklatch

import (
	"context"
	"errors"
	"time"
)

// Tree is what the recipes need of ZooKeeper: nodes that end with their session,
// numbered names, one-shot watches, versions. [Conn] is a real one; package memtree
// has one in memory.
//
// A call waits for a connection, until ctx ends. ErrConnectionLost, and the error of
// a ctx that ended, mean that the outcome is unknown: the request may have been
// carried out, or may be carried out later.
type Tree interface {
	// Create makes a node and returns its path: longer than asked for, if the kind
	// is numbered.
	Create(ctx context.Context, path string, data []byte, kind Kind) (string, error)
	// Delete removes a node of that version; AnyVersion removes it whatever it is.
	Delete(ctx context.Context, path string, version int32) error
	// Get reads a node.
	Get(ctx context.Context, path string) ([]byte, Stat, error)
	// GetW reads a node and watches it: the channel gets one event when the node
	// changes or goes, or when nobody watches any more (the session has expired), and
	// is closed. The watch of a node that is not there is not set.
	GetW(ctx context.Context, path string) ([]byte, Stat, <-chan Event, error)
	// Set writes a node of that version.
	Set(ctx context.Context, path string, data []byte, version int32) (Stat, error)
	// SetIf writes a node, if and only if another one, the fence, has the version
	// given: one transaction.
	SetIf(ctx context.Context, path string, data []byte, version int32, fence string, fenceVersion int32) (Stat, error)
	// Children lists the names under a node, in no order.
	Children(ctx context.Context, path string) ([]string, error)
	// Session says how this client stands with the servers now. The channel is
	// closed when ID or Link has changed since.
	Session() (Session, <-chan struct{})
}

// Kind is how a node lives and how it is named.
type Kind int

// The kinds of nodes.
const (
	Persistent         Kind = iota // until it is deleted
	Ephemeral                      // until it is deleted or its session ends
	EphemeralNumbered              // and ten digits, ever higher under one parent, are put behind its name
	PersistentNumbered             //
)

// AnyVersion matches every version of a node.
const AnyVersion = -1

// Stat is what the tree knows of a node.
type Stat struct {
	Czxid   int64 // the transaction that made it: no other node ever has the same
	Mzxid   int64 // the last one that wrote it
	Version int32 // how often it was written
	Owner   int64 // the session that it ends with; 0: none
}

// Event is what a watch tells.
type Event struct {
	Type EventType
	Path string
}

// EventType says what has happened to a node.
type EventType int

// The types of events.
const (
	NotWatching EventType = iota // the watch is over without an event
	NodeDeleted
	NodeChanged
)

// Session is a client's standing with the servers.
type Session struct {
	// ID is the session; 0 before the first, and after one has expired. What was made
	// under another ID is gone, or about to go.
	ID int64
	// Link counts the connections, from 1; 0 while there is none. Another number
	// than before means that there was a time without, in which watches were silent.
	Link uint64
	// Timeout is what the servers agreed to: they end a session of which they have
	// heard nothing for that long.
	Timeout time.Duration
	// Heard is proof of life: before this moment, by our monotonic clock, a request
	// was sent that has been answered. The servers have heard of us since.
	Heard time.Time
}

// Connected says whether there is a connection now.
func (s Session) Connected() bool { return s.ID != 0 && s.Link != 0 }

// Until is the first moment at which the servers could end the session, by our own
// monotonic clock. It is in the past when nothing was heard for too long, whether
// the connection seems to be there or not.
func (s Session) Until() time.Time {
	if s.ID == 0 {
		return time.Time{}
	}
	return s.Heard.Add(s.Timeout)
}

var (
	// ErrNoNode: there is no such node.
	ErrNoNode = errors.New("no such node")
	// ErrNodeExists: a node of that name is there already.
	ErrNodeExists = errors.New("node exists")
	// ErrBadVersion: the node, or the fence, was written since.
	ErrBadVersion = errors.New("another version")
	// ErrNotEmpty: a node that has children is not deleted.
	ErrNotEmpty = errors.New("node has children")
	// ErrConnectionLost: no answer came. Whether the request was carried out is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSessionExpired: the session is over, and with it all its nodes and watches.
	// The request was not carried out.
	ErrSessionExpired = errors.New("session expired")
	// ErrClosed: this client was closed.
	ErrClosed = errors.New("client is closed")
)
