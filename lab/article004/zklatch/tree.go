package zklatch

import (
	"context"
	"errors"
	"time"
)

// Tree is the part of ZooKeeper that the recipes need: nodes that end with their
// session, numbered names, one-shot watches, versions. [Conn] is a client's; package
// memtree has a server in memory.
//
// Each call waits for a connection until ctx ends. After ErrConnectionLost, or the
// error of a ctx that ended, the outcome is unknown: the request may have been
// executed, or may be later.
type Tree interface {
	// Create creates a node and returns its path, which has a number appended if the
	// kind is numbered.
	Create(ctx context.Context, path string, data []byte, kind Kind) (string, error)
	// Delete deletes a node if it has that version, or any version with AnyVersion.
	Delete(ctx context.Context, path string, version int32) error
	// Get reads a node.
	Get(ctx context.Context, path string) ([]byte, Stat, error)
	// GetW reads a node and watches it: the channel receives one event when the node is
	// written or deleted, or when the watch ends because the session has expired, and
	// is closed then. If there is no such node, no watch is set. A watch may miss a change
	// while the connection is replaced: when Session.Link has changed, read and watch again.
	GetW(ctx context.Context, path string) ([]byte, Stat, <-chan Event, error)
	// Set writes a node if it has that version.
	Set(ctx context.Context, path string, data []byte, version int32) (Stat, error)
	// SetIf writes a node if it has that version and another node, the fence, exists, in
	// one transaction.
	SetIf(ctx context.Context, path string, data []byte, version int32, fence string) (Stat, error)
	// Children lists the names under a node, in no order.
	Children(ctx context.Context, path string) ([]string, error)
	// ChildrenW is Children with a watch, which reports as that of GetW does: one event
	// when a name is added or removed, when the node is deleted, or when the session
	// has expired.
	ChildrenW(ctx context.Context, path string) ([]string, <-chan Event, error)
	// Session returns this client's session. The channel is closed when its ID or Link
	// changes.
	Session() (Session, <-chan struct{})
}

// Kind is how long a node lives and how it is named.
type Kind int

// The kinds of nodes.
const (
	Persistent         Kind = iota // until it is deleted
	Ephemeral                      // until it is deleted or its session ends
	EphemeralNumbered              // likewise; ten digits, which rise under one parent, are appended to its name
	PersistentNumbered             // until it is deleted; named like EphemeralNumbered
	Container                      // until it is deleted, or the servers find it empty after it had children
)

// AnyVersion matches every version of a node.
const AnyVersion = -1

// Stat describes a node.
type Stat struct {
	Version int32 // how often it was written
	Owner   int64 // the session that it ends with; 0 if none
}

// Event is what a watch reports.
type Event struct {
	Type EventType
	Path string
}

// EventType is what has happened to a node.
type EventType int

// The types of events.
const (
	NotWatching EventType = iota // the watch has ended without an event
	NodeDeleted
	NodeChanged
	ChildrenChanged // a name under it was added or removed
)

// Session is the state of a client's session.
type Session struct {
	// ID is the session's id; 0 before the first one, and after it has expired.
	// Ephemeral nodes of another ID are deleted, or will be soon.
	ID int64
	// Link counts the connections from 1; it is 0 while there is none. If it has
	// changed, there was a time without a connection, in which watches reported
	// nothing.
	Link uint64
	// Timeout is what the servers have granted: they end a session from which they have
	// received nothing for that long.
	Timeout time.Duration
	// ConfirmedAt is when, by this process's monotonic clock, the last answered
	// request was sent. The servers have received from this session at that time or
	// later.
	ConfirmedAt time.Time
}

// Connected reports whether there is a connection now.
func (s Session) Connected() bool { return s.ID != 0 && s.Link != 0 }

// Until returns the earliest time at which the servers could end the session, by this
// process's monotonic clock. It is in the past if the session was not confirmed for too
// long, even if there seems to be a connection.
func (s Session) Until() time.Time {
	if s.ID == 0 {
		return time.Time{}
	}
	return s.ConfirmedAt.Add(s.Timeout)
}

var (
	// ErrNoNode is returned if there is no such node.
	ErrNoNode = errors.New("no such node")
	// ErrNodeExists is returned if there is a node of that name already.
	ErrNodeExists = errors.New("node exists")
	// ErrBadVersion is returned if the node has another version.
	ErrBadVersion = errors.New("another version")
	// ErrConnectionLost is returned if there was no answer. The outcome is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSessionExpired is returned if the session has ended, and with it its nodes and
	// watches. The request was not executed.
	ErrSessionExpired = errors.New("session expired")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("client is closed")
)
