package blackbox

import "fmt"

// Led checks one answer of a source that names a leader, such as a meta, or one row of
// a list of terms that must rise.
func (o *Oracle) Led(source string, term uint64, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[Owner].Checks++
	was, known := o.owners[term]
	if known && was != owner {
		o.violate(Owner, "", "", "term %d was owned by %s and by %s", term, was, owner)
	}
	if !known {
		o.owners[term] = owner
		o.note(event{text: fmt.Sprintf("%s leads term %d", owner, term)})
	}
	o.counts[Rise].Checks++
	if term < o.terms[source] {
		o.violate(Rise, "", "", "%s named term %d after term %d", source, term, o.terms[source])
	}
	o.terms[source] = max(o.terms[source], term)
}
