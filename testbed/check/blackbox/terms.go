package blackbox

import "fmt"

// Led checks one answer of a meta that names the leader.
func (o *Oracle) Led(meta string, term uint64, owner string) { o.named(meta, term, owner, 0) }

// Elected checks one row of a history, which lists each term once, in their order.
func (o *Oracle) Elected(history string, term uint64, owner string) {
	o.named(history, term, owner, 1)
}

// named checks that a source names a term that is above the one before by at least this
// much.
func (o *Oracle) named(source string, term uint64, owner string, above uint64) {
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
	if last, known := o.terms[source]; known && term < last+above {
		o.violate(Rise, "", "", "%s named term %d after term %d", source, term, last)
	}
	o.terms[source] = max(o.terms[source], term)
}
