package chaos

import "slices"

// Underway keeps account of the faults that last, for whoever tells a story while
// it is played. The zero value is ready.
type Underway struct{ open []Act }

// Note takes an act in.
func (u *Underway) Note(a Act) {
	k := key(a)
	u.open = slices.DeleteFunc(u.open, func(o Act) bool { return key(o) == k })
	if undone(a).Verb != "" && !ends(a) {
		u.open = append(u.open, a)
	}
}

// List is what lasts now, in the order in which it began.
func (u *Underway) List() []Act { return slices.Clone(u.open) }
