package registry

// Class is a class of changes. The queues are written in the order of the classes
// (ADR 0079).
type Class uint8

// The classes.
const (
	withdrawn Class = iota // and removals
	watched                // of what clients of this session subscribe to, or of what data has in an older version
	fresh                  // other registrations
	repeated               // written again, although data is believed to have them
	classes
)

// Order returns the order of the classes in the n-th Write to a data node. Every
// fourth one begins with another class than the first, each of them in turn, so
// that a class waits for twelve Writes at most, however much there is of others.
func Order(n uint64) (order [classes]Class) {
	var begin Class
	if n%4 == 3 {
		begin = watched + Class(n/4%uint64(classes-1))
	}
	order[0] = begin
	at := 1
	for c := range classes {
		if c != begin {
			order[at] = c
			at++
		}
	}
	return order
}
