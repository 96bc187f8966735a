package testbed

import "slices"

// ActiveFaults lists the faults that last now. The zero value is ready.
type ActiveFaults struct{ open []Action }

// Note updates the list with an action that was carried out.
func (f *ActiveFaults) Note(a Action) {
	k := a.Key()
	f.open = slices.DeleteFunc(f.open, func(o Action) bool { return o.Key() == k })
	if a.Undo().Verb != "" && !a.EndsFault() {
		f.open = append(f.open, a)
	}
}

// List returns the faults that last now, in the order in which they began.
func (f *ActiveFaults) List() []Action { return slices.Clone(f.open) }
