package blacklist

import (
	"errors"
	"fmt"
	"time"

	"conclave"
)

// ReasonDrain is the reason in an entry that a node adds for itself when it
// stops.
const ReasonDrain = "drain"

// ErrInvalid wraps all errors about an invalid entry or set.
var ErrInvalid = errors.New("invalid blacklist")

// Entry forbids one node: it is given no slots and no clients, and what it has
// is handed over. It applies to the name, so a restarted node is still
// forbidden.
type Entry struct {
	Name string        `json:"name"`
	Role conclave.Role `json:"role"`
	// Reason is for people, except that ReasonDrain marks an entry that is Own.
	Reason string `json:"reason"`
	// By is the requester: the node's own name, or an operator.
	By string `json:"by"`
	// Incarnation is the requester's, in an entry that is Own; otherwise it is
	// the one that was alive, or empty.
	Incarnation string `json:"incarnation,omitempty"`
	// Since is the time of the request. It is only for display.
	Since time.Time `json:"since"`
}

// Drain returns the entry that a stopping node adds for itself.
func Drain(node conclave.NodeID, role conclave.Role, since time.Time) Entry {
	return Entry{Name: node.Name, Role: role, Reason: ReasonDrain, By: node.Name, Incarnation: node.Incarnation, Since: since}
}

// Own reports whether the node added the entry for itself, in order to drain.
// The node removes such an entry when it starts again. All other entries are an
// operator's, and only an operator removes them.
func (e Entry) Own() bool { return e.By == e.Name && e.Reason == ReasonDrain }

// Validate checks that the entry has a node, a role and a requester.
func (e Entry) Validate() error {
	if err := conclave.ValidateName(e.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := conclave.ParseRole(string(e.Role)); err != nil {
		return fmt.Errorf("%w: entry %s: %w", ErrInvalid, e.Name, err)
	}
	if e.By == "" {
		return fmt.Errorf("%w: entry %s has no requester", ErrInvalid, e.Name)
	}
	if e.Own() && e.Incarnation == "" {
		return fmt.Errorf("%w: entry %s is the node's own and has no incarnation", ErrInvalid, e.Name)
	}
	return nil
}
