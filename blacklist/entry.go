package blacklist

import (
	"errors"
	"fmt"
	"time"

	"conclave"
)

// ReasonDrain is the reason in an entry that a node makes for itself when it
// stops.
const ReasonDrain = "drain"

// ErrInvalid wraps what is wrong with an entry, or with a set that was read.
var ErrInvalid = errors.New("invalid blacklist")

// Entry forbids one node: it is given no slot and no client, and what it has is
// taken over. The list is of names: a node that restarts is still on it.
type Entry struct {
	Name string        `json:"name"`
	Role conclave.Role `json:"role"`
	// Reason is for people, except ReasonDrain in an entry that is Own.
	Reason string `json:"reason"`
	// By is who asked for it: the node's own name, or an operator.
	By string `json:"by"`
	// Incarnation is the one that asked, in an entry that is Own; otherwise the
	// one that was alive, or none.
	Incarnation string `json:"incarnation,omitempty"`
	// Since is when it was asked for; shown, never judged.
	Since time.Time `json:"since"`
}

// Drain is the entry that a stopping node makes for itself.
func Drain(node conclave.NodeID, role conclave.Role, since time.Time) Entry {
	return Entry{Name: node.Name, Role: role, Reason: ReasonDrain, By: node.Name, Incarnation: node.Incarnation, Since: since}
}

// Own says that the node made the entry for itself, to drain: the node takes it
// back when it starts again. All others are an operator's, and only an operator
// takes them back.
func (e Entry) Own() bool { return e.By == e.Name && e.Reason == ReasonDrain }

// Validate checks that the entry names a node, a role and who asked.
func (e Entry) Validate() error {
	if err := conclave.ValidateName(e.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := conclave.ParseRole(string(e.Role)); err != nil {
		return fmt.Errorf("%w: entry %s: %w", ErrInvalid, e.Name, err)
	}
	if e.By == "" {
		return fmt.Errorf("%w: entry %s does not say who asked for it", ErrInvalid, e.Name)
	}
	if e.Own() && e.Incarnation == "" {
		return fmt.Errorf("%w: entry %s is the node's own and names no incarnation", ErrInvalid, e.Name)
	}
	return nil
}
