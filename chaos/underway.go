package chaos

import "slices"

// Underway lists the faults that last at a moment of a scenario that is being
// played. The zero value is ready.
type Underway struct{ open []Act }

// Note updates the list with an act that was carried out.
func (u *Underway) Note(a Act) {
	k := key(a)
	u.open = slices.DeleteFunc(u.open, func(o Act) bool { return key(o) == k })
	if undoAct(a).Verb != "" && !endsFault(a) {
		u.open = append(u.open, a)
	}
}

// List returns the faults that last now, in the order in which they began.
func (u *Underway) List() []Act { return slices.Clone(u.open) }
