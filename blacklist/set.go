package blacklist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave"
)

// Set is the blacklist under one epoch. It is immutable: a change returns
// another set. The zero Set is the empty list before the first decision.
type Set struct {
	epoch   conclave.Epoch
	entries []Entry // sorted by name, one for each name
}

// Epoch returns the epoch of the last change or of the last At.
func (s Set) Epoch() conclave.Epoch { return s.epoch }

// At returns the same list under another epoch. The first write of a term uses
// it to seal the list again.
func (s Set) At(epoch conclave.Epoch) Set {
	s.epoch = epoch
	return s
}

// Add returns the set with an entry added under the next epoch, and whether it
// differs from s. If it does not, it is s, with its old epoch, and need not be
// written. Requests are repeated, so Add is idempotent:
//   - The same name from the same requester changes nothing, except that a node's
//     own entry takes its newest incarnation.
//   - A node's own drain never replaces an operator's entry, which the node could
//     then remove by restarting.
//   - An operator's entry replaces the node's own, and another operator's.
func (s Set) Add(e Entry, next conclave.Epoch) (set Set, changed bool, err error) {
	if err := e.Validate(); err != nil {
		return s, false, err
	}
	i, found := s.find(e.Name)
	if !found {
		return Set{next, slices.Insert(slices.Clone(s.entries), i, e)}, true, nil
	}
	switch old := s.entries[i]; {
	case e.Own() && !old.Own():
		return s, false, nil
	case e.Own() && e.Incarnation == old.Incarnation:
		return s, false, nil
	case !e.Own() && !old.Own() && e.By == old.By:
		return s, false, nil
	}
	entries := slices.Clone(s.entries)
	entries[i] = e
	return Set{next, entries}, true, nil
}

// Remove returns the set without a name, whatever its entry, and whether it
// differs from s. It is for operators.
func (s Set) Remove(name string, next conclave.Epoch) (set Set, changed bool) {
	i, found := s.find(name)
	if !found {
		return s, false
	}
	return Set{next, slices.Delete(slices.Clone(s.entries), i, i+1)}, true
}

// RemoveOwn returns the set without the drain entry that an earlier incarnation
// of the node added for itself, and whether it differs from s. A node requests
// it at the end of its start. An operator's entry stays. An entry of the same
// incarnation stays too, because the request may be older than the node's own
// stop.
func (s Set) RemoveOwn(node conclave.NodeID, next conclave.Epoch) (set Set, changed bool) {
	i, found := s.find(node.Name)
	if !found || !s.entries[i].Own() || s.entries[i].Incarnation == node.Incarnation {
		return s, false
	}
	return s.Remove(node.Name, next)
}

// Has reports whether the name is on the list.
func (s Set) Has(name string) bool {
	_, found := s.find(name)
	return found
}

// Get returns the entry of a name and whether there is one.
func (s Set) Get(name string) (e Entry, found bool) {
	i, found := s.find(name)
	if !found {
		return Entry{}, false
	}
	return s.entries[i], true
}

// List returns all entries, sorted by name. The caller may modify the result.
func (s Set) List() []Entry { return append([]Entry{}, s.entries...) }

// Names returns the names on the list, sorted.
func (s Set) Names() []string {
	names := make([]string, len(s.entries))
	for i, e := range s.entries {
		names[i] = e.Name
	}
	return names
}

// Len returns the number of names on the list.
func (s Set) Len() int { return len(s.entries) }

func (s Set) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
}

// setJSON is the form in which a set is stored and sent.
type setJSON struct {
	Epoch   conclave.Epoch `json:"epoch"`
	Entries []Entry        `json:"entries"`
}

var (
	_ json.Marshaler   = Set{}
	_ json.Unmarshaler = (*Set)(nil)
)

// MarshalJSON writes {"epoch", "entries"}.
func (s Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(setJSON{s.epoch, s.List()})
}

// UnmarshalJSON reads what MarshalJSON writes. For an invalid set, such as one
// that is not sorted or names a node twice, it returns ErrInvalid and does not
// change s.
func (s *Set) UnmarshalJSON(data []byte) error {
	var j setJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for i, e := range j.Entries {
		if err := e.Validate(); err != nil {
			return err
		}
		if i > 0 && j.Entries[i-1].Name >= e.Name {
			return fmt.Errorf("%w: entry %s after %s", ErrInvalid, e.Name, j.Entries[i-1].Name)
		}
	}
	*s = Set{j.Epoch, j.Entries}
	return nil
}
