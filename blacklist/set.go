package blacklist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Set is the blacklist: its entries, sorted by name, one for each name. It is
// immutable: a change returns another set. The zero Set is empty.
type Set []Entry

// Add returns the set with an entry added, and whether it differs from s. If it does
// not, it need not be written. Requests are repeated, so Add is idempotent:
//   - The same name from the same requester changes nothing, except that a node's
//     own entry takes its newest incarnation.
//   - A node's own drain never replaces an operator's entry, which the node could
//     then remove by restarting.
//   - An operator's entry replaces the node's own, and another operator's.
func (s Set) Add(e Entry) (set Set, changed bool, err error) {
	if err := e.Validate(); err != nil {
		return s, false, err
	}
	i, found := s.find(e.Name)
	if !found {
		return slices.Insert(slices.Clone(s), i, e), true, nil
	}
	switch old := s[i]; {
	case e.Own() && !old.Own():
		return s, false, nil
	case e.Own() && e.Incarnation == old.Incarnation:
		return s, false, nil
	case !e.Own() && !old.Own() && e.By == old.By:
		return s, false, nil
	}
	set = slices.Clone(s)
	set[i] = e
	return set, true, nil
}

// Remove returns the set without a name, whatever its entry, and whether it
// differs from s. It is for operators.
func (s Set) Remove(name string) (set Set, changed bool) {
	i, found := s.find(name)
	if !found {
		return s, false
	}
	return slices.Delete(slices.Clone(s), i, i+1), true
}

// RemoveOwn returns the set without the drain entry that an earlier incarnation
// of the node added for itself, and whether it differs from s. A node requests
// it at the end of its start. An operator's entry stays. An entry of the same
// incarnation stays too, because the request may be older than the node's own
// stop.
func (s Set) RemoveOwn(node conclave.NodeID) (set Set, changed bool) {
	i, found := s.find(node.Name)
	if !found || !s[i].Own() || s[i].Incarnation == node.Incarnation {
		return s, false
	}
	return s.Remove(node.Name)
}

// Has reports whether the name is on the list.
func (s Set) Has(name string) bool {
	_, found := s.find(name)
	return found
}

// Names returns the names on the list, sorted.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, e := range s {
		names[i] = e.Name
	}
	return names
}

// Validate returns ErrInvalid for a set that no change could have made: with an
// entry that is not valid, not sorted, or with a node twice.
func (s Set) Validate() error {
	for i, e := range s {
		if err := e.Validate(); err != nil {
			return err
		}
		if i > 0 && s[i-1].Name >= e.Name {
			return fmt.Errorf("%w: entry %s after %s", ErrInvalid, e.Name, s[i-1].Name)
		}
	}
	return nil
}

func (s Set) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
}
